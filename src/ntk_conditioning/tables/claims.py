"""The table of claims: one row per published statement, with its verdict and the numbers."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table


def _number(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, nullable=True)


def _text(name: str, meaning: str) -> Column:
    return Column(name, pa.string(), meaning, nullable=True)


CLAIMS = Table(
    name="claims",
    description="Published statements, each compared with what this run measured.",
    keys=("paper", "claim"),
    columns=(
        Column("paper", pa.string(), "the paper"),
        Column("claim", pa.string(), "name of the claim in papers/{paper}.yaml"),
        Column("place", pa.string(), "where in the paper"),
        Column(
            "kind",
            pa.string(),
            "`theory` (theorem, corollary, proposition, lemma), `experiment`, `erratum` (what is "
            "printed by mistake) or `limit` (where a statement ends, found here)",
        ),
        Column("statement", pa.string(), "what is claimed, in a sentence"),
        Column("table", pa.string(), "table of this run that it was compared with"),
        _text("slice", "rows of that table"),
        Column("quantity", pa.string(), "what was computed of each row"),
        Column("comparison", pa.string(), "how it was to compare: `<`, `<=`, `==`, `>=` or `>`"),
        Column("target", pa.string(), "with what: a number, or an expression of columns"),
        Column("tolerance", pa.float64(), "by how much it may miss, in units of the quantity"),
        Column(
            "verdict",
            pa.string(),
            "`holds` (in every case), `holds under a condition` (in every case that meets it, and "
            "not in all others), `fails` or `not tested in this run`",
        ),
        _number("measured", "the quantity in the case that is worst for the claim"),
        _text("worst", "which case that is"),
        _number("median", "the quantity's median over the cases"),
        _number("low", "the quantity's smallest value"),
        _number("high", "the quantity's largest value"),
        _number("seed_spread", "largest range over the seeds of one case"),
        Column("cases", pa.int64(), "cases that could be decided"),
        Column("holding", pa.int64(), "cases in which the comparison holds"),
        Column(
            "undecided",
            pa.int64(),
            "cases without a number, as a ratio of unresolved kappas",
        ),
        _text("condition", "the condition under which it holds"),
        Column("condition_cases", pa.int64(), "cases that meet the condition", nullable=True),
        _text("figure", "figure that shows it"),
        _text("note", "what else is to be known"),
    ),
)

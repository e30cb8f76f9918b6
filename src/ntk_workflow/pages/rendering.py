"""Render the templates: HTML pages that load nothing, with all values escaped, and Markdown."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup

from ntk_conditioning.errors import UserError, one_line


def render(template: str, **values: Any) -> str:
    """Return a template of this folder with its values; in HTML they are escaped."""
    return _TEMPLATES.get_template(template).render(values)


def shown(value: Any) -> str:
    """Return a value of a table as one reads it.

    >>> [shown(value) for value in (12345678, 0.000123456, 2.0, None, True, float("inf"), "relu")]
    ['12345678', '0.0001235', '2', '–', 'yes', '∞', 'relu']
    """
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    return f"{value:.4g}".replace("inf", "∞") if isinstance(value, float) else str(value)


def where(row: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return a row's key in words: texts speak for themselves, numbers have their name.

    >>> where({"dataset": "wine", "depth": None, "seed": 20260101.0}, ["dataset", "depth", "seed"])
    'wine, seed 20260101'
    """
    known = {key: row[key] for key in keys if not pd.isna(row[key]) and row[key] != ""}
    return ", ".join(
        value if isinstance(value, str) else f"{key} {value:{'g' if value % 1 else '.0f'}}"
        for key, value in known.items()
    )


def mathml(latex: str, *, place: str) -> Markup:
    """Return a formula in LaTeX, which stands at a place, as MathML, which browsers set."""
    try:
        formula: str = convert(latex.strip(), display="block")
    except Exception as error:  # the converter's exceptions have no class in common
        reason = one_line(error) or type(error).__name__
        raise UserError(f"{place}: {latex.strip()!r} is no formula: {reason}") from None
    if unknown := re.search(r"\\[A-Za-z]+", formula):
        raise UserError(f"{place}: {latex.strip()!r}: {unknown[0]} is not known")
    return Markup(formula)


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
_TEMPLATES.filters |= {
    "shown": shown,
    "in_cell": lambda text: str(text).replace("|", "\\|"),
    "in_rst": lambda text: re.sub(r"([\\*`_|])", r"\\\1", " ".join(str(text).split())),
}

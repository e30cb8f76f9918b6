"""Perturb the formulas of the papers' claims, one at a time, and see that verdicts change.

    PYTHONPATH=src:scripts python -m tests.support.claim_mutants [--tables FOLDER] [CLAIM ...]

The experiments run at the demo's settings, and again with every formula that is perturbed; tables
of a finished demo give the rest. Formulas are perturbed where claim_formulas.yaml says that they
stand: in a claim and as the number that is compared, then in the code until all claims have noticed
one. Without names of claims all are listed in claim_mutants.md, and their score is written into
docs/claims.md.
"""

import argparse
import ast
import importlib
import inspect
import itertools
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

import check_claims
import numpy as np
import pandas as pd
import torch

from docs.build.marked import with_part
from ntk_conditioning.claim_experiments import Setting, papers
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.networks import activations
from ntk_conditioning.theory import bounds_vs_exact
from ntk_workflow.claims import checking
from ntk_workflow.claims.papers import Claim, ClaimError
from ntk_workflow.config import read_yaml

ROOT = Path(__file__).parents[2]
FORMULAS = ROOT / "tests/support/claim_formulas.yaml"
LIST, PAGE = ROOT / "tests/support/claim_mutants.md", ROOT / "docs/claims.md"

KINDS = ("theory", "erratum", "limit")
BOUNDS = "bounds"
PERCENT = 1.05
#: Names of what counts layers, terms or samples.
INDICES = {"depth", "layer", "layers", "h", "k", "late", "n"}
PLACES = 2  # of a formula that are perturbed in one way
LONGEST = 30.0  # seconds, after which an experiment with a perturbed formula is stopped

Tables = Mapping[str, pd.DataFrame]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Mutant:
    """What is perturbed: a constant, exponent, sign or index, a misprint or the statement."""

    kind: str
    change: str


# --- Expressions ----------------------------------------------------------------------------------

Place = tuple[ast.AST, str, int | None]
#: Fields of nodes that are no part of a formula.
NO_FORMULA = {
    *(("FunctionDef", name) for name in ("args", "decorator_list", "returns", "type_params")),
    *(("Assign", "targets"), ("AnnAssign", "target"), ("AnnAssign", "annotation")),
    *(("AugAssign", "target"), ("For", "target"), ("If", "test"), ("Assert", "test")),
    *(("Raise", "exc"), ("Call", "func"), ("Call", "keywords"), ("Attribute", "value")),
    *(("Subscript", "slice"), ("Compare", "comparators"), ("comprehension", "target")),
}


def perturbed(tree: ast.AST, part: str | None = None, new: str | None = None) -> Iterator[Mutant]:
    """Perturb a tree's expressions in turn, or those that read as ``part``; or put ``new`` for it.

    >>> tree = ast.parse("1 - x / 2", mode="eval")
    >>> [(mutant.kind, ast.unparse(tree)) for mutant in perturbed(tree, "x / 2")]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('exponent', '1 - x ** 2 / 2'), ('exponent', '1 - x ** 0.5 / 2'), ('constant', '1 - x / 2.1')]
    >>> ast.unparse(tree)
    '1 - x / 2'
    """
    places = list(_places(tree, but=NO_FORMULA))
    if part is not None:
        part = ast.unparse(ast.parse(part, mode="eval").body)
        roots = [place for place in _places(tree) if ast.unparse(_node(*place)) == part]
        if not roots:
            raise LookupError(f"no {part!r} in {ast.unparse(tree)[:60]!r}")
        places = [each for root in roots for each in (root, *_places(_node(*root), but=NO_FORMULA))]
        places = roots if new else places
    done: Counter[str] = Counter()
    for place in places:
        node = _node(*place)
        changes = list(_changes(node, factor=_is_factor(*place) or part == ast.unparse(node)))
        changes = [each for each in changes if done[each[0]] < PLACES]
        done.update({kind for kind, _ in changes})
        if new:
            changes = [("statement", ast.parse(new, mode="eval").body)]
        for kind, other in changes:
            _put(other, *place)
            try:
                yield Mutant(kind, f"`{ast.unparse(node)}` → `{ast.unparse(other)}`")
            finally:
                _put(node, *place)


def _places(node: ast.AST, but: Collection[tuple[str, str]] = ()) -> Iterator[Place]:
    """Yield where expressions stand: a node, its field, and the number in it if it is a list."""
    for name, value in ast.iter_fields(node):
        if (type(node).__name__, name) not in but:
            for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.expr):
                    yield node, name, number
                if isinstance(child, ast.AST):
                    yield from _places(child, but)


def _node(parent: ast.AST, name: str, number: int | None) -> Any:
    value = getattr(parent, name)
    return value if number is None else value[number]


def _put(node: ast.AST, parent: ast.AST, name: str, number: int | None) -> None:
    if number is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[number] = node


def _is_factor(parent: ast.AST, name: str, _: int | None) -> bool:
    operator = parent.op if isinstance(parent, ast.BinOp | ast.UnaryOp) else None
    return isinstance(operator, ast.Mult | ast.Div | ast.USub)


def _changes(node: ast.expr, *, factor: bool) -> Iterator[tuple[str, ast.expr]]:
    """Yield what an expression becomes."""
    one = ast.Constant(1)
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and value:
            yield "constant", ast.Constant(value * PERCENT)
        case ast.BinOp(left, ast.Add(), right):
            yield "sign", ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left, ast.Sub(), right):
            yield "sign", ast.BinOp(left, ast.Add(), right)
        case ast.BinOp(left, ast.Pow(), right):
            for sign in (ast.Add(), ast.Sub()):
                yield "exponent", ast.BinOp(left, ast.Pow(), ast.BinOp(right, sign, one))
        case ast.Name(id=name) if name in INDICES:
            for sign in (ast.Add(), ast.Sub()):
                yield "index", ast.BinOp(node, sign, one)
        case ast.Call(func=ast.Attribute(attr="sqrt"), args=[square]):
            yield "exponent", square
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.Pow)
    if factor and not product and not isinstance(node, ast.Constant | ast.UnaryOp):
        for power in (2, 0.5):
            yield "exponent", ast.BinOp(node, ast.Pow(), ast.Constant(power))


# --- Code -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Formula:
    """Where a formula stands: in a function or an assignment of a module, a part of it or all."""

    module: str
    name: str
    part: str | None = None
    new: str | None = None

    def planted(self) -> Iterator[Mutant]:
        """Yield mutants, each of which is in force until the next is asked for."""
        module = importlib.import_module(f"ntk_conditioning.{self.module}")
        definition = _definition(module.__name__, self.name)
        for mutant in perturbed(definition, self.part, self.new):
            with _in_force(module, self.name, definition):
                yield replace(mutant, change=f"{self.name}: {mutant.change}")


@cache
def known() -> Mapping[str, Any]:
    """Return tests/support/claim_formulas.yaml."""
    return read_yaml(FORMULAS)


def formulas() -> Iterator[Formula]:
    """Yield the formulas in the code."""
    for module, names in known()["formulas"].items():
        for name, parts in names.items():
            for part in parts or [None]:
                pair = next(iter(part.items())) if isinstance(part, dict) else (part, None)
                yield Formula(module, name, *pair)


def problems() -> list[str]:
    """Return what claim_formulas.yaml says and neither the code nor the papers have."""
    found = []
    for formula in formulas():
        try:
            list(formula.planted())
        except (LookupError, AttributeError, ImportError, ValueError) as error:
            found.append(f"{formula.module}.{formula.name}: {error}")
    claims = {claim.name: claim for _, claim in read_claims()}
    for key in ("expressions", "rewritten", "reasons"):
        found += [f"{key}: no paper has the claim {name}" for name in known()[key].keys() - claims]
    for claim in claims.values():
        try:
            list(_by_hand(claim))
        except LookupError as error:
            found.append(str(error))
    return found


@cache
def _definition(module: str, name: str) -> Any:
    node: Any = ast.parse(inspect.getsource(importlib.import_module(module)))
    for part in name.split("."):
        found = [each for each in node.body if part in _names(each)]
        if not found:
            raise LookupError(f"{module} has no {part}")
        node = found[0]
    return node


def _names(node: ast.stmt) -> list[str]:
    """Return what a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [
                each.id
                for target in targets
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            ]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


@contextmanager
def _in_force(module: Any, name: str, definition: Any) -> Iterator[None]:
    """Have a module do what a definition says; functions stay the same objects."""
    scratch = dict(vars(module))
    exec(compile(ast.unparse(definition), str(module.__file__), "exec"), scratch)
    if isinstance(definition, ast.FunctionDef):
        target = _function(module, name)
        made = scratch[definition.name]
        made = inspect.unwrap(made.fget if isinstance(made, property) else made)
        original, target.__code__ = target.__code__, made.__code__
        try:
            yield
        finally:
            target.__code__ = original
    else:
        old = {each: getattr(module, each) for each in _names(definition)}
        vars(module).update({each: scratch[each] for each in old})
        try:
            yield
        finally:
            vars(module).update(old)


def _function(module: Any, name: str) -> Any:
    found = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    return inspect.unwrap(found.fget if isinstance(found, property) else found)


# --- Experiments ----------------------------------------------------------------------------------

Code = tuple[str, str, tuple[str, ...]]


def _key(code: CodeType) -> Code:
    return code.co_filename, code.co_qualname, code.co_names


@dataclass
class Experiment:
    """A function that makes rows of a table, each of which has a ``statement``."""

    name: str
    table: str
    function: Callable[[], Rows]
    rows: Rows = field(default_factory=list)
    codes: set[Code] = field(default_factory=set)

    def run(self) -> None:
        """Run, and note the code that runs."""

        def note(frame: Any, *_: Any) -> None:
            self.codes.add(_key(frame.f_code))

        sys.settrace(note)
        try:
            self.rows = self.function()
        finally:
            sys.settrace(None)

    def uses(self, formula: Formula) -> bool:
        module = importlib.import_module(f"ntk_conditioning.{formula.module}")
        if isinstance(_definition(module.__name__, formula.name), ast.FunctionDef):
            return _key(_function(module, formula.name).__code__) in self.codes
        return any(
            file == module.__file__ and formula.name in names for file, _, names in self.codes
        )

    def wanted(self, found: "Sequence[Trial]") -> bool:
        """Whether to run again."""
        statements = {row["statement"] for row in self.rows}
        return any(trial.statements & statements and trial.open for trial in found)

    def again(self) -> Rows:
        """Return the rows with a formula perturbed, or as they are if they cannot be computed."""

        def stop(*_: Any) -> None:
            raise TimeoutError

        signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return self.function()
        except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError):
            return self.rows
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def experiments(setting: Setting, frames: Tables) -> list[Experiment]:
    """Return the papers' experiments, and the bounds beside exact kernels."""
    found = [
        Experiment(
            each.__name__,
            "claim_experiments",
            partial(_measured, paper, each, setting),
        )
        for paper, modules in papers.PAPERS.items()
        for module in modules
        for name, each in vars(module).items()
        if inspect.isfunction(each) and not name.startswith("_")
        if list(inspect.signature(each).parameters) == ["setting"]
    ]
    if BOUNDS in frames:
        found.append(Experiment(BOUNDS, BOUNDS, partial(_bounds, frames[BOUNDS])))
    return found


def _measured(paper: str, function: Any, setting: Setting) -> Rows:
    return [{"paper": paper, **asdict(row), "procedure": ""} for row in function(setting)]


def _bounds(frame: pd.DataFrame) -> Rows:
    """Return the table's rows with what agarwal2021deep proves computed again."""
    rows: Rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row in rows:
        ntk = row["kernel"] == "infinite_ntk"
        if row["mean"] == 0:
            row |= bounds_vs_exact.bounds_of(row, ntk=ntk)
        if not ntk:
            row["distance_bound"] = bounds_vs_exact.distance_bound(row, _slope(row["activation"]))
    return rows


@cache
def _slope(activation: str) -> float:
    return fixed_point(activations.get(activation)).slope


# --- Claims ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A verdict with its condition, and by how much each case (n,) misses the target."""

    verdict: tuple[str, str | None]
    miss: checking.Array


def measured(claim: Claim, frames: Tables) -> Measured:
    finding, rows = checking.check(claim, frames), checking.rows_of(claim, frames)
    value, target = (
        checking.evaluate(claim, rows, each) if len(rows) else np.empty(0)
        for each in (claim.quantity, claim.target)
    )
    with np.errstate(invalid="ignore"):
        gap = np.where(value == target, 0.0, value - target)
    return Measured((finding.verdict, finding.condition), checking.MISS[claim.comparison](gap))


@dataclass
class Trial:
    """A claim, its verdict, and for each mutant whether that changes.

    ``restated`` are mutants of the claim itself, ``planted`` those in the code.
    """

    paper: str
    claim: Claim
    before: Measured
    statements: frozenset[str]
    restated: list[tuple[Mutant, bool]] = field(default_factory=list)
    planted: list[tuple[Mutant, bool]] = field(default_factory=list)

    def restate(self, mutant: Mutant, claim: Claim, frames: Tables) -> None:
        if (changes := self._changes(claim, frames)) is not None:
            self.restated.append((mutant, changes))

    def plant(self, mutant: Mutant, frames: Tables) -> None:
        table = self.claim.table
        rows = frames[table][frames[table]["statement"].isin(self.statements)]
        if (changes := self._changes(self.claim, {**frames, table: rows})) is not None:
            self.planted.append((mutant, changes))

    def _changes(self, claim: Claim, frames: Tables) -> bool | None:
        """Return whether the verdict changes, or None where it cannot.

        A bound that becomes weaker still holds, and one that becomes stronger still fails; a false
        equation stays false unless a case comes nearer to it.
        """
        try:
            after = measured(claim, frames)
        except ClaimError:
            return None
        if after.miss.shape == self.before.miss.shape:
            change = after.miss - self.before.miss
            change = change[np.abs(change) > 1e-14 * np.abs(self.before.miss)]
            if self.before.verdict[0] == checking.FAILS:
                change = change[change < 0]
            elif self.before.verdict[0] == checking.HOLDS and claim.comparison != "==":
                change = change[change > 0]
            if not change.size:
                return None
        return after.verdict != self.before.verdict

    @property
    def open(self) -> bool:
        """Whether to go on: if it is neither caught nor known not to be."""
        return not self.caught and self.claim.name not in known()["reasons"]

    @property
    def mutants(self) -> list[tuple[Mutant, bool]]:
        return self.restated + self.planted

    @property
    def caught(self) -> bool:
        """Whether the verdict changes: of an equation that holds, with each of its numbers."""
        fails = self.before.verdict[0] == checking.FAILS
        if self.claim.comparison == "==" and self.restated and not fails:
            return all(changes for _, changes in self.restated)
        return any(changes for _, changes in self.mutants)


def read_claims() -> list[tuple[str, Claim]]:
    """Return all claims that are no experiments, each with its paper."""
    every = [check_claims.load_paper(path) for path in sorted((ROOT / "papers").glob("*.yaml"))]
    return [(paper.name, each) for paper in every for each in paper.claims if each.kind in KINDS]


def trials(frames: Tables, names: Collection[str]) -> list[Trial]:
    """Return the claims that a run tests, with the mutants of their own expressions."""
    found = []
    for paper, claim in read_claims():
        before, rows = measured(claim, frames), checking.rows_of(claim, frames)
        if before.verdict[0] == checking.NOT_TESTED or (names and claim.name not in names):
            continue
        columns = [each for each in rows if each.endswith("statement")]
        trial = Trial(paper, claim, before, frozenset(rows[columns].to_numpy().ravel()))
        for mutant, other in restated(claim, rows):
            trial.restate(mutant, other, frames)
        found.append(trial)
    return found


def restated(claim: Claim, rows: pd.DataFrame) -> Iterator[tuple[Mutant, Claim]]:
    """Yield the claim with other numbers, the misprint for its correction, or other words."""
    texts = f"{claim.quantity} {claim.target}"
    columns = [name for name in ("printed", "corrected") if re.search(rf"\b{name}\b", texts)]
    if _is_exponent(claim):
        for change in ("+ 1", "+ 0.5", "- 0.5", "- 1"):
            yield _reworded(claim, "exponent", {claim.target: f"({claim.target}) {change}"})
    elif columns:
        for name, factor in itertools.product(columns, (PERCENT, 1 / PERCENT)):
            yield _reworded(claim, "constant", {name: f"({factor:.4f} * {name})"})
    elif number := _number(claim):
        for factor in (PERCENT, 1 / PERCENT):
            yield _reworded(claim, "constant", {claim.target: f"{number * factor:.6g}"})
    if "printed" in rows and _differ(rows["printed"], rows["corrected"]):
        pair = {"printed": "corrected", "corrected": "printed"}
        has_both = rows[list(pair)].notna().all(axis=None)
        if has_both and len(columns) == 1:
            yield _reworded(claim, "misprint", {columns[0]: pair[columns[0]]})
        elif has_both and not columns and claim.comparison == "==":
            yield _reworded(claim, "misprint", {claim.target: "corrected"})
    yield from _by_hand(claim)


def _differ(printed: pd.Series, corrected: pd.Series) -> bool:
    """Return whether numbers differ in all rows by more than rounding leaves of 0."""
    return not np.isclose(printed, corrected, rtol=1e-12, atol=1e-30).any()


def _by_hand(claim: Claim) -> Iterator[tuple[Mutant, Claim]]:
    if changes := known()["rewritten"].get(claim.name):
        yield _reworded(claim, "misprint" if claim.kind == "erratum" else "statement", changes)
    for part in known()["expressions"].get(claim.name, ()):
        tree = ast.parse(claim.quantity, mode="eval")
        for mutant in perturbed(tree, part):
            yield mutant, replace(claim, quantity=ast.unparse(tree))


def _is_exponent(claim: Claim) -> bool:
    where = re.search(r"exponent(?!ial)", " ".join(claim.where))
    return bool(where) or claim.quantity == "slope" or claim.name in known()["exponents"]


def _number(claim: Claim) -> float:
    """Return the number that a claim compares with, 0 if it has none or it is a choice of ours.

    Inequalities have 1 if the quantity is over its bound.
    """
    try:
        number = float(claim.target)
    except ValueError:
        return 0.0
    return number if claim.comparison == "==" or abs(number - 1) < 1e-6 else 0.0


def _reworded(claim: Claim, kind: str, changes: Mapping[str, str]) -> tuple[Mutant, Claim]:
    """Return the claim with texts replaced, in its target alone if that is one of them."""

    def new(text: str) -> str:
        for old, other in changes.items():
            text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", other, text)
        return text

    mutant = Mutant(kind, ", ".join(f"`{old}` → `{other}`" for old, other in changes.items()))
    if claim.target in changes:
        return mutant, replace(claim, target=changes[claim.target])
    where = tuple(map(new, claim.where))
    joins = tuple(replace(join, where=tuple(map(new, join.where))) for join in claim.joins)
    keys = ("quantity", "comparison", "target")
    texts = {key: new(getattr(claim, key)) for key in keys}
    other = replace(claim, where=where, joins=joins, **texts)
    if other == claim:
        raise LookupError(f"no {next(iter(changes))!r} in {claim.name}")
    return mutant, other


def plant(
    formula: Formula, made: Sequence[Experiment], found: Sequence[Trial], frames: Tables
) -> None:
    """Plant a formula's mutants one at a time, and note which verdicts change."""
    used = [each for each in made if each.uses(formula)]
    for mutant in formula.planted():
        after, changed = dict(frames), set()
        for each in used:
            if not each.wanted(found):
                continue
            rows, frame = each.again(), after[each.table]
            names = _changed(each.rows, rows)
            changed |= names
            rows = [row for row in rows if row["statement"] in names]
            new = pd.DataFrame(rows, columns=frame.columns).astype(frame.dtypes)
            replaced = frame["statement"].isin(names)
            if "paper" in frame:  # another paper's statement may have the same name
                replaced &= frame["paper"] == each.rows[0]["paper"]
            after[each.table] = pd.concat([frame[~replaced], new])
        for trial in found:
            if trial.statements & changed:
                trial.plant(mutant, after)


def _changed(before: Rows, after: Rows) -> set[str]:
    """Return the statements whose numbers are not the same."""
    texts: list[dict[str, list[str]]] = [{}, {}]
    for rows, by_name in zip((before, after), texts, strict=True):
        for row in rows:
            by_name.setdefault(row["statement"], []).append(repr(row))
    return {name for name in texts[0] if texts[0][name] != texts[1].get(name)}


# --- Pages ----------------------------------------------------------------------------------------


def listed(found: Sequence[Trial]) -> str:
    """Return the list of all claims in Markdown."""
    rows = [("claim", "kind", "verdict", "perturbed: verdict changes", "does not"), ("---",) * 5]
    for trial in found:
        every, noticed = (
            Counter(mutant.kind for mutant, changes in trial.mutants if changes or not only)
            for only in (False, True)
        )
        shares = ", ".join(f"{kind} {noticed[kind]}/{every[kind]}" for kind in sorted(every))
        missed = [m.change for m, changes in trial.restated if not changes and not trial.caught]
        name = f"{trial.paper} `{trial.claim.name}`"
        rows.append((name, trial.claim.kind, trial.before.verdict[0], shares, ", ".join(missed)))
    lines = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join([HEADING, *lines, ""])


HEADING = """\
# Perturbed formulas

The claims of the papers, and how many changes of their formulas change the verdict; made by
`python -m tests.support.claim_mutants`. The last column has what an equation should notice and
does not.
"""


def summary(found: Sequence[Trial]) -> str:
    """Return the score of each kind of claim, and the claims that are not caught, in Markdown."""
    lines = ["| kind | claims | with a formula | verdict changes | score |", "| --- " * 5 + "|"]
    for kind in KINDS:
        some = [trial for trial in found if trial.claim.kind == kind]
        touched = [trial for trial in some if trial.mutants]
        caught = sum(trial.caught for trial in touched)
        score = f"{100 * caught // len(touched)}%" if touched else ""
        lines.append(f"| {kind} | {len(some)} | {len(touched)} | {caught} | {score} |")
    reasons = known()["reasons"]
    for heading, trials in (
        ("No formula is perturbed of:", [trial for trial in found if not trial.mutants]),
        (
            "No change of the formula changes the verdict on:",
            [trial for trial in found if trial.mutants and not trial.caught],
        ),
    ):
        if trials:
            lines += ["", heading, ""]
        for trial in trials:
            reason = reasons.get(trial.claim.name, "no reason is known")
            lines.append(f"- {trial.paper} `{trial.claim.name}` ({trial.claim.kind}): {reason}.")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="all by default")
    parser.add_argument(
        "--tables", type=Path, default=ROOT / "results/demo/tables", metavar="FOLDER"
    )
    args = parser.parse_args(argv)
    if found := problems():
        raise SystemExit("\n".join([f"{FORMULAS.name}:", *found]))
    torch.set_num_threads(1)
    frames = {path.stem: check_claims.frame(path) for path in sorted(args.tables.glob("*.parquet"))}
    if BOUNDS in frames:
        frames[BOUNDS] = frames[BOUNDS].assign(statement=BOUNDS)
    made = experiments(Setting(**read_yaml(ROOT / "config.yaml")["claim_experiments"]), frames)
    for each in made:
        each.run()
    rows = [row for each in made if each.table == "claim_experiments" for row in each.rows]
    frames["claim_experiments"] = pd.DataFrame(rows)
    tried = trials(frames, args.claims)
    for formula in formulas():
        plant(formula, made, tried, frames)
        print(f"{formula.module}.{formula.name}: {formula.part or 'all'}", flush=True)
    for trial in tried:
        state = "caught" if trial.caught else "NOT CAUGHT" if trial.mutants else "not perturbed"
        print(f"{trial.paper} {trial.claim.name}: {state}")
    if not args.claims:
        LIST.write_text(listed(tried), encoding="utf-8")
        text = with_part(PAGE, "mutants", f"{summary(tried)}\n")
        PAGE.write_text(text, encoding="utf-8")
    return 0 if all(trial.caught or not trial.mutants for trial in tried) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The expressions of papers' claims: a small language of columns, which can do nothing else.

A paper's file may come from anyone, so its expressions are parsed and never executed.
"""

import ast
import math
import operator as op
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line

LONGEST = 500  #: characters of an expression
DEEPEST = 20  #: levels of an expression

#: From the rows of a table to a value for each of them, or to one for all.
Expression = Callable[[pd.DataFrame], Any]
Operators = Mapping[type[ast.AST], Callable[..., Any]]

ALLOWED = (
    "allowed are columns, numbers, + - * / **, == != < <= > >=, and, or, not, in [...], abs(...), "
    "log(...), and of a column .min(), .max(), also of the rows with the same model .max('model'), "
    ".isna(), .notna(), .fillna(...), .isin([...]), "
    ".str.startswith('...'), .str.endswith('...'), .str.contains('...') and .str.fullmatch('...'), "
    "whose text may have up to three of .* and (...)?"
)
UNARY: Operators = {ast.UAdd: op.pos, ast.USub: op.neg, ast.Not: np.invert, ast.Invert: np.invert}
BINARY: Operators = {
    ast.Add: op.add,
    ast.Sub: op.sub,
    ast.Mult: op.mul,
    ast.Div: op.truediv,
    ast.Pow: op.pow,
    ast.Eq: op.eq,
    ast.NotEq: op.ne,
    ast.Lt: op.lt,
    ast.LtE: op.le,
    ast.Gt: op.gt,
    ast.GtE: op.ge,
    ast.And: op.and_,
    ast.Or: op.or_,
}
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"abs": np.abs, "log": np.log}
#: What a column can be asked for.
EXTREMES = ("min", "max")
PROPERTIES = (*EXTREMES, "isna", "notna")
_PLAIN = r"[\w -]*"
#: What a column's texts can be compared with. A regular expression with more open parts could take
#: exponential time.
TEXTS: Mapping[str, str] = {
    **dict.fromkeys(("startswith", "endswith", "contains"), _PLAIN),
    "fullmatch": rf"{_PLAIN}(?:(?:\.\*|\([\w -]+\)\?){_PLAIN}){{0,3}}",
}


class ExpressionError(UserError):
    """An expression is not in the grammar, or does not fit a table."""


@cache
def parse(text: str) -> Expression:
    """Return the function of a table's rows that an expression describes.

    Its grammar is `ALLOWED`. All numbers are floating-point numbers, ``log`` is the natural one,
    ``min`` and ``max`` are over all rows, or over those alike in named columns, ``not`` can be
    written ``~``. Texts are compared with letters, digits, spaces, ``_`` and ``-``; those of
    ``fullmatch`` also with ``.*``, any characters, and ``(...)?``, which may be missing.

    Raises:
        ExpressionError: one line that names the part that is not allowed, and what is; also if
            there are more than `LONGEST` characters or `DEEPEST` levels, or a number is too large.

    >>> rows = pd.DataFrame({"depth": [1, 2], "kappa": [3.0, 8.0]})
    >>> parse("kappa / 2 > 1 and depth == depth.max()")(rows).tolist()
    [False, True]
    >>> parse("kappa + depth.to_csv('file')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ntk_workflow.claims.expressions.ExpressionError: "depth.to_csv('file')" is not allowed; ...
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"{_short(text)} has {len(text)} characters; {LONGEST} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python's own, of what is refused below
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", one_line(error))
        raise ExpressionError(f"{_short(text)}: {reason}; {ALLOWED}") from None
    levels = 0
    nodes: list[ast.AST] = [tree]
    while nodes:  # without recursion
        levels, nodes = levels + 1, [part for node in nodes for part in ast.iter_child_nodes(node)]
    if levels > DEEPEST:
        raise ExpressionError(f"{_short(text)} has more than {DEEPEST} levels; write it flatter")
    return _built(tree)


def columns(text: str) -> set[str]:
    """Return the columns that an expression of the grammar names.

    >>> sorted(columns("log(kappa) > n and depth.isin([1, 2])"))
    ['depth', 'kappa', 'n']
    """
    nodes = [*ast.walk(ast.parse(text.strip(), mode="eval"))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    functions = {id(call.func) for call in calls}
    alike = [
        argument.value
        for call in calls
        for argument in call.args
        if isinstance(call.func, ast.Attribute) and call.func.attr in EXTREMES
        if isinstance(argument, ast.Constant)
    ]
    found = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in functions}
    return {*found, *map(str, alike)}


def evaluate(text: str, rows: pd.DataFrame) -> NDArray[Any]:
    """Return what an expression gives for each row: booleans, or floating-point numbers.

    Raises:
        ExpressionError: if it is not in the grammar of `parse`, or does not fit the rows.
    """
    expression = parse(text)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(expression(rows))
        if values.dtype.kind in "iuf":
            values = values.astype(np.float64)
        elif values.dtype != bool:
            numbers = pd.to_numeric(pd.Series(values.ravel()), errors="raise")
            values = numbers.to_numpy(np.float64, na_value=np.nan)
    except (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise ExpressionError(f"{_short(text)}: {one_line(error)}") from None
    return np.broadcast_to(values, (len(rows),)).copy()


def _built(node: ast.expr) -> Expression:
    match node:
        case ast.Name(id=name):
            return lambda rows: _values(_column(rows, name))
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _constant(node, lambda _: float(number))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in UNARY:
            return _applied(UNARY[type(sign)], _built(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY:
            combined = _applied(BINARY[type(sign)], _built(left), _built(right))
            named = any(isinstance(part, ast.Name) for part in ast.walk(node))
            return combined if named else _constant(node, combined)
        case ast.BoolOp(op=sign, values=values):
            return _reduced(BINARY[type(sign)], [_built(value) for value in values])
        case ast.Compare(left=left, ops=signs, comparators=others):
            pairs = zip(signs, pairwise([left, *others]), strict=True)
            return _reduced(op.and_, [_compared(node, sign, *pair) for sign, pair in pairs])
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return _applied(FUNCTIONS[name], _built(argument))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), keywords=[]):
            return _of_column(node, name, method)
        case ast.Call(
            func=ast.Attribute(ast.Attribute(ast.Name(id=name), attr="str"), attr=method),
            args=[ast.Constant(value=str(words))],
            keywords=[],
        ) if method in TEXTS and re.fullmatch(TEXTS[method], words):
            return lambda rows: getattr(_column(rows, name).str, method)(words)
    raise _refusal(node)


def _compared(whole: ast.expr, sign: ast.cmpop, left: ast.expr, right: ast.expr) -> Expression:
    match sign, left:
        case ((ast.In() | ast.NotIn()), ast.Name(id=name)):
            members, within = _members(right), isinstance(sign, ast.In)
            return lambda rows: _column(rows, name).isin(members) == within
        case _ if type(sign) in BINARY:
            return _applied(BINARY[type(sign)], _side(left), _side(right))
    raise _refusal(whole)


def _side(node: ast.expr) -> Expression:
    """Return a side of a comparison, which may be a text."""
    text = node.value if isinstance(node, ast.Constant) else None
    return (lambda _: text) if isinstance(text, str) else _built(node)


def _of_column(node: ast.Call, name: str, method: str) -> Expression:
    match method, node.args:
        case _, [_, *_] as names if method in EXTREMES and all(map(_is_text, names)):
            alike = [str(ast.literal_eval(each)) for each in names]
            return lambda rows: _extreme_of_alike(rows, name, method, alike)
        case _, [] if method in PROPERTIES:
            return lambda rows: getattr(_column(rows, name), method)()
        case "isin", [values]:
            members = _members(values)
            return lambda rows: _column(rows, name).isin(members)
        case "fillna", [value]:
            filling = _built(value)
            return lambda rows: _column(rows, name).fillna(filling(rows))
    raise _refusal(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _extreme_of_alike(rows: pd.DataFrame, name: str, method: str, alike: list[str]) -> Any:
    """Return the least or largest value of a column in the rows equal in others, for each row."""
    groups = [_column(rows, each) for each in alike]
    grouped = _column(rows, name).groupby(groups, dropna=False, observed=True)
    return _values(grouped.transform(method))


def _members(node: ast.expr) -> list[Any]:
    try:
        values = ast.literal_eval(node) if isinstance(node, ast.List | ast.Tuple) else None
    except (TypeError, ValueError):
        values = None
    if not values or not all(isinstance(value, str | int | float) for value in values):
        raise _refusal(node)
    return list(values)


def _column(rows: pd.DataFrame, name: str) -> Any:
    if name not in rows:
        raise ExpressionError(f"there is no column {name}")
    return rows[name]


def _values(column: pd.Series) -> Any:
    """Return a column, if it has numbers as an array, with which arithmetic is fast."""
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column


def _applied(function: Callable[..., Any], *arguments: Expression) -> Expression:
    return lambda rows: function(*(argument(rows) for argument in arguments))


def _reduced(function: Callable[[Any, Any], Any], parts: list[Expression]) -> Expression:
    return lambda rows: reduce(function, (part(rows) for part in parts))


def _constant(node: ast.expr, expression: Expression) -> Expression:
    """Return an expression without columns if it is a number."""
    try:
        value = expression(pd.DataFrame())
    except (ArithmeticError, TypeError):
        value = None
    if not isinstance(value, float) or not math.isfinite(value):
        raise ExpressionError(f"{_short(ast.unparse(node))} is no number, or too large a one")
    return lambda _: value


def _refusal(node: ast.expr) -> ExpressionError:
    return ExpressionError(f"{_short(ast.unparse(node))} is not allowed; {ALLOWED}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

"""Expressions of claims as a reader of the paper would write them."""

import ast
import re
from collections.abc import Mapping

SYMBOLS = {"kappa": "κ", "lambda": "λ", "mu": "μ", "delta": "δ", "rho": "ρ", "theta": "θ"}
SYMBOLS |= {"alpha": "α", "gram": "Gram", "ntk": "NTK", "nngp": "NNGP"}
SYMBOLS |= {"relu": "ReLU", "normrelu": "NormReLU", "selu": "SELU"}
SIGNS = {" == ": " = ", " != ": " ≠ ", " <= ": " ≤ ", " >= ": " ≥ ", " in ": " is "}
SIGNS |= {" ** ": "^", " * ": " · ", "-": "−", "~": "not "}
#: What is asked of a column, and its words.
QUESTIONS = {"min": "smallest {}", "max": "largest {}", "fillna": "{}"}
QUESTIONS |= {"isna": "{} is missing", "notna": "{} is given", "isin": "{} is {}"}
QUESTIONS |= {"startswith": "{} begins with {}", "endswith": "{} ends with {}"}
QUESTIONS |= {"contains": "{} contains {}", "fullmatch": "{} is {}"}


def name(text: str) -> str:
    """Return the name of a column, or of what was measured, in words.

    >>> name("linear_kappa"), name("lambda_min_over_gram"), name("pair_.*_kappa(_unequal)?")
    ('linear κ', 'λ_min over Gram', 'pair … κ')
    >>> name("l_0"), name("cell_error")
    ('L_0', 'cell error')
    """
    plain = re.sub(r"\(.*\)\?", "", text).replace(".*", "…").replace("lambda_m", "λ_m")
    plain = re.sub(r"\bl_", "L_", plain)
    plain = re.sub(r"\bat\b", "argument", plain)  # the column; `at_one` is a part of a name
    words = re.sub(r"(?<![λL])_", " ", plain)
    return re.sub(r"[^\W\d_]+", lambda word: SYMBOLS.get(word[0], word[0]), words.strip())


def in_words(expression: str, columns: Mapping[str, str] | None = None) -> str:
    """Return an expression, as papers have them, in words; ``columns`` may have their own.

    >>> in_words("kappa / gram_kappa <= 1e-3 and activation in ['relu', 'tanh']")
    'κ / Gram κ ≤ 0.001 and activation is ReLU or tanh'
    >>> in_words("statement == 'chebyshev' and width == width.max()")
    'statement = chebyshev and largest width'
    """
    text = ast.unparse(_Words(columns or {}).visit(ast.parse(expression.strip(), mode="eval")))
    for sign, shown in SIGNS.items():
        text = text.replace(sign, shown)
    return re.sub(r"([^=]+) = ((smallest|largest) \1)", r"\2", text)


class _Words(ast.NodeTransformer):
    """Puts words in place of names and texts; `ast.unparse` keeps the brackets that are needed."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.columns.get(node.id) or name(node.id))

    def visit_Constant(self, node: ast.Constant) -> ast.Name:
        value = node.value
        return ast.Name(f"{value:.10g}" if isinstance(value, int | float) else name(str(value)))

    def visit_List(self, node: ast.List | ast.Tuple) -> ast.Name:
        *others, last = (ast.unparse(self.visit(each)) for each in node.elts)
        return ast.Name(f"{', '.join(others)} or {last}" if others else last)

    def visit_Tuple(self, node: ast.Tuple) -> ast.Name:
        return self.visit_List(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Name:
        word = " and " if isinstance(node.op, ast.And) else " or "
        parts = [ast.unparse(self.visit(each)) for each in node.values]
        nested = [isinstance(each, ast.BoolOp) for each in node.values]
        return ast.Name(word.join(f"({p})" if n else p for p, n in zip(parts, nested, strict=True)))

    def visit_Call(self, node: ast.Call) -> ast.Name:
        arguments = [ast.unparse(self.visit(each)) for each in node.args]
        match node.func:
            case ast.Attribute(ast.Attribute(column) | column, attr=question):
                asked = ast.unparse(self.visit(column))
                return ast.Name(QUESTIONS[question].format(asked, *arguments))
            case function:
                called = ast.unparse(function)
                return ast.Name(("|{}|" if called == "abs" else called + "({})").format(*arguments))

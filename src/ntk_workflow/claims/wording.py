"""Expressions of claims as a reader of the paper would write them."""

import re
from collections.abc import Mapping

SYMBOLS = {"kappa": "κ", "lambda": "λ", "mu": "μ", "delta": "δ", "rho": "ρ", "alpha": "α"}
SYMBOLS |= {"gram": "Gram", "ntk": "NTK", "nngp": "NNGP", "relu": "ReLU", "selu": "SELU"}
SYMBOLS |= {"normrelu": "NormReLU"}
#: Patterns of expressions and what stands for them, in this order.
PHRASES = {
    r"\b(\w+) == \1\.(min|max)\([^)]*\)": r"\2 \1",
    r"(\w+)\.(min|max)\([^)]*\)": r"\2 \1",
    r"\bmin (\w+)": r"smallest \1",
    r"\bmax (\w+)": r"largest \1",
    r"\.fillna\([^)]*\)": "",
    r"\.isna\(\)": " is missing",
    r"\.notna\(\)": " is given",
    r"\.str\.startswith\(('[^']*')\)": r" begins with \1",
    r"(?:\.isin\(| in )[\[(]([^])]*), ([^]),]*)[])]+": r" is \1 or \2",
    r"\babs\(((?:[^()]|\([^()]*\))*)\)": r"|\1|",
    " == ": " = ",
    " != ": " ≠ ",
    " <= ": " ≤ ",
    " >= ": " ≥ ",
    r" \*\* ": "^",
    r" \* ": " · ",
    "-": "−",
    "~": "not ",
}


def name(text: str) -> str:
    """Return the name of a column, or of what was measured, in words.

    >>> name("lambda_min_over_gram"), name("pair_.*_kappa(_unequal)?"), name("l_0")
    ('λ_min over Gram', 'pair … κ', 'L_0')
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
    labels = columns or {}
    number = r"\b\d[\d.]*(e[-+]?\d+)?\b"
    text = re.sub(number, lambda match: f"{float(match[0]):.10g}", expression.strip())
    for pattern, words in PHRASES.items():
        text = re.sub(pattern, words, text)
    return re.sub(r"'([^']*)'|\b[^\W\d]\w*", lambda w: labels.get(w[0]) or name(w[1] or w[0]), text)

"""Render the templates: HTML pages that load nothing, with all values escaped, and Markdown."""

import json
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from jinja2.utils import htmlsafe_json_dumps
from latex2mathml.converter import convert
from markupsafe import Markup

from ntk_conditioning.errors import one_line


def render(template: str, **values: Any) -> str:
    """Return a template of this folder with its values; in HTML they are escaped."""
    return _TEMPLATES.get_template(template).render(values)


def shown(value: Any) -> str:
    """Return a value of a table as one reads it.

    >>> [shown(value) for value in (12345678, 0.000123456, 2.0, None, True, float("inf"), "relu")]
    ['12345678', '0.0001235', '2', '–', 'yes', '∞', 'relu']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}".replace("inf", "∞")
    return str(value)


@cache
def mathml(latex: str) -> Markup:
    """Return a formula in LaTeX as MathML, which browsers set without any program."""
    plain = re.sub(r"\\[{}]", "", latex)
    try:
        if plain.count("{") != plain.count("}"):
            raise ValueError("braces do not match")
        formula: str = convert(latex.strip(), display="block")
    except Exception as error:  # the converter's exceptions have no class in common
        reason = one_line(error) or type(error).__name__
        raise ValueError(f"{latex.strip()!r} is no formula: {reason}") from None
    if unknown := re.search(r"\\[A-Za-z]+", formula):
        raise ValueError(f"{latex.strip()!r}: {unknown[0]} is not known")
    return Markup(formula)


#: JSON that may stand in a script of a page: no text in it can end the script.
in_script = partial(
    htmlsafe_json_dumps,
    dumps=partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False),
)

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "shown": shown,
    "in_cell": lambda text: str(text).replace("|", "\\|"),
    "in_rst": lambda text: re.sub(r"([\\*`_|])", r"\\\1", " ".join(str(text).split())),
}

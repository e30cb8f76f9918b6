"""Captions of figures: a paragraph of reStructuredText each, as LaTeX and as Markdown."""

import re
from pathlib import Path

from docutils.core import publish_doctree, publish_parts
from docutils.utils import SystemMessage

from ntk_conditioning.errors import UserError, one_line

#: Every warning is raised, none printed; the others are as they will be by default.
_SETTINGS = {"halt_level": 2, "warning_stream": False}
_SETTINGS |= {"use_latex_citations": True, "legacy_column_widths": False}


def read(path: Path) -> str:
    """Return the caption in a file (.rst), on one line; `UserError` if it is no caption."""
    text = path.read_text(encoding="utf-8")
    try:
        paragraphs = len(publish_doctree(text, settings_overrides=_SETTINGS))
    except SystemMessage as error:
        raise UserError(f"{path}: not reStructuredText: {one_line(error)}") from None
    if paragraphs != 1:
        raise UserError(f"{path}: a caption is one paragraph; it has {paragraphs}")
    return " ".join(text.split())


def latex(caption: str) -> str:
    r"""Return a caption as LaTeX.

    >>> latex("**Angles & depth.** The angle :math:`\\phi`, in %.")
    '\\textbf{Angles \\& depth.} The angle $\\phi$, in \\%.'
    """
    return str(publish_parts(caption, writer="latex", settings_overrides=_SETTINGS)["body"]).strip()


def markdown(caption: str) -> str:
    r"""Return a caption as Markdown, with formulas between dollar signs.

    >>> markdown("**Angles.** The angle :math:`\\phi`.")
    '**Angles.** The angle $\\phi$.'
    """
    return re.sub(r":math:`([^`]*)`", r"$\1$", caption)

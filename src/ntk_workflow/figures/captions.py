"""Captions of figures: a paragraph of reStructuredText each, as LaTeX and as Markdown."""

import re
from pathlib import Path

from docutils.core import publish_doctree, publish_parts
from docutils.utils import SystemMessage

from ntk_conditioning.errors import UserError, one_line

_SETTINGS = {"halt_level": 2, "warning_stream": False}  # every warning is raised, none printed
#: As they will be by default; docutils warns where they are not given.
_LATEX = {**_SETTINGS, "use_latex_citations": True, "legacy_column_widths": False}


class CaptionError(UserError):
    """A file is not one paragraph of words and formulas."""


def read(path: Path) -> str:
    """Return the caption in a file (.rst), on one line; `CaptionError` if it is no caption."""
    text = path.read_text(encoding="utf-8")
    try:
        paragraphs = len(publish_doctree(text, settings_overrides=_SETTINGS))
    except SystemMessage as error:
        raise CaptionError(f"{path}: not reStructuredText: {one_line(error)}") from None
    if paragraphs != 1:
        raise CaptionError(f"{path}: a caption is one paragraph; it has {paragraphs}")
    return " ".join(text.split())


def latex(caption: str) -> str:
    r"""Return a caption as LaTeX.

    >>> latex("**Angles & depth.** The angle :math:`\\phi`, in %.")
    '\\textbf{Angles \\& depth.} The angle $\\phi$, in \\%.'
    """
    return str(publish_parts(caption, writer="latex", settings_overrides=_LATEX)["body"]).strip()


def markdown(caption: str) -> str:
    r"""Return a caption as Markdown, with formulas between dollar signs.

    >>> markdown("**Angles.** The angle :math:`\\phi`.")
    '**Angles.** The angle $\\phi$.'
    """
    return re.sub(r":math:`([^`]*)`", r"$\1$", caption)

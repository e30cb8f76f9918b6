"""Captions of figures: a paragraph of reStructuredText each, as LaTeX and as Markdown.

What a caption may have besides words is ``**strong**``, ``*emphasised*`` and ``:math:`` text.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.core import publish_doctree, publish_parts
from docutils.utils import SystemMessage

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

_ALLOWED = (nodes.document, nodes.paragraph, nodes.Text, nodes.strong, nodes.emphasis, nodes.math)
_SETTINGS = {"halt_level": 2, "warning_stream": False}  # every warning is raised, none printed
#: As they will be by default; docutils warns where they are not given.
_LATEX = {"use_latex_citations": True, "legacy_column_widths": False}


class CaptionError(UserError):
    """A file is not one paragraph of words and formulas."""


def read(path: Path) -> str:
    """Return the caption in a file (.rst), on one line; `CaptionError` if it is no caption."""
    require_file(path)
    text = path.read_text(encoding="utf-8")
    try:
        document = publish_doctree(text, settings_overrides=_SETTINGS)
    except SystemMessage as error:
        raise CaptionError(f"{path}: not reStructuredText: {one_line(error)}") from None
    others = {node.tagname for node in document.findall() if not isinstance(node, _ALLOWED)}
    if others or len(document) != 1:
        what = f"it has {', '.join(sorted(others))}" if others else f"it has {len(document)}"
        raise CaptionError(f"{path}: a caption is one paragraph of words and formulas; {what}")
    return " ".join(text.split())


def latex(caption: str) -> str:
    r"""Return a caption as LaTeX.

    >>> latex("**Angles & depth.** The angle :math:`\\phi`, in %.")
    '\\textbf{Angles \\& depth.} The angle $\\phi$, in \\%.'
    """
    parts = publish_parts(caption, writer="latex", settings_overrides=_SETTINGS | _LATEX)
    return str(parts["body"]).strip()


def markdown(caption: str) -> str:
    r"""Return a caption as Markdown, with formulas between dollar signs.

    >>> markdown("**Angles.** The angle :math:`\\phi`.")
    '**Angles.** The angle $\\phi$.'
    """
    return re.sub(r":math:`([^`]*)`", r"$\1$", caption)


def latex_figure(caption: str, *, file: str, label: str, wide: bool) -> str:
    """Return a figure environment of LaTeX, across both columns if ``wide``.

    The file is included at its own size, so that its letters have theirs.
    """
    environment = "figure*" if wide else "figure"
    return rf"""\begin{{{environment}}}
  \centering
  \includegraphics{{{file}}}
  \caption{{{latex(caption)}}}
  \label{{fig:{label}}}
\end{{{environment}}}"""

"""Collect figures for a paper: their PDFs, and captions in LaTeX and Markdown."""

import re
import shutil
from pathlib import Path

from docutils.core import publish_parts
from docutils.utils import SystemMessage
from pypdf import PdfReader

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import atomic, write_text
from ntk_conditioning.plotting.theme import DOUBLE_COLUMN, SINGLE_COLUMN
from ntk_workflow.cli import Argv, Parser, named_path, program

HEADER = f"""% The figures of a run for a paper: \\input{{captions}}, or copy what you need.
% Their PDFs are included at their own size, for columns of {SINGLE_COLUMN:g} and pages of \
{DOUBLE_COLUMN:g} inches.
"""
#: Every warning of docutils is raised, none printed; the others are as they will be by default.
DOCUTILS = {"halt_level": 2, "warning_stream": False}
DOCUTILS |= {"use_latex_citations": True, "legacy_column_widths": False}


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    for option, what in (("--figures", "PDF"), ("--captions", "caption (.rst)")):
        each = f"NAME={what} of every figure"
        parser.add_argument(option, type=named_path, nargs="+", required=True, help=each)
    parser.add_argument("--folder", type=Path, required=True, help="where everything is put")
    args = parser.parse_args(argv)

    captions = dict(args.captions)
    latex, markdown = [HEADER], ["# Figures\n"]
    for name, path in args.figures:
        words = " ".join(captions[name].read_text(encoding="utf-8").split())
        try:
            caption = publish_parts(words, writer="latex", settings_overrides=DOCUTILS)["body"]
        except SystemMessage as error:
            raise UserError(f"{captions[name]}: not reStructuredText: {one_line(error)}") from None
        width, height = (float(points) / 72 for points in PdfReader(path).pages[0].mediabox[2:])
        # across both columns if it is wide, and at its own size, so that its letters have theirs
        environment = "figure*" if width > SINGLE_COLUMN + 0.1 else "figure"
        latex.append(rf"""\begin{{{environment}}}
  \centering
  \includegraphics{{{name}.pdf}}
  \caption{{{caption.strip()}}}
  \label{{fig:{name}}}
\end{{{environment}}}
""")
        formulas = re.sub(r":math:`([^`]*)`", r"$\1$", words)
        heading = f"## {name}\n\n[{name}.pdf]({name}.pdf), {width:.1f} × {height:.1f} inches"
        markdown.append(f"{heading}\n\n{formulas}\n")
        with atomic(args.folder / f"{name}.pdf") as temporary:
            shutil.copyfile(path, temporary)
    write_text(args.folder / "captions.tex", "\n".join(latex))
    write_text(args.folder / "captions.md", "\n".join(markdown))

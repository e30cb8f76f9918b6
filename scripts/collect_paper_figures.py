"""Collect figures for a paper: their PDFs, and captions in LaTeX and Markdown."""

import shutil
from pathlib import Path

from pypdf import PdfReader

from ntk_conditioning.files import atomic, require_file, write_text
from ntk_conditioning.plotting.style import DOUBLE_COLUMN, SINGLE_COLUMN
from ntk_workflow.cli import Argv, Parser, UsageError, named_path, run_main
from ntk_workflow.figures import captions

HEADER = f"""% The figures of a run for a paper: \\input{{captions}}, or copy what you need.
% Their PDFs are included at their own size, for columns of {SINGLE_COLUMN:g} and pages of \
{DOUBLE_COLUMN:g} inches.
"""


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    for option, what in (("--figures", "PDF"), ("--captions", "caption (.rst)")):
        each = f"NAME={what} of every figure"
        parser.add_argument(option, type=named_path, nargs="+", required=True, help=each)
    parser.add_argument("--folder", type=Path, required=True, help="where everything is put")
    args = parser.parse_args(argv)

    figures, texts = dict(args.figures), dict(args.captions)
    if figures.keys() != texts.keys():
        odd = ", ".join(sorted(figures.keys() ^ texts.keys()))
        raise UsageError(f"not both a PDF and a caption: {odd}")
    words = {name: captions.read(path) for name, path in texts.items()}
    latex, markdown = [HEADER], ["# Figures\n"]
    for name, path in figures.items():
        require_file(path)
        width, height = (float(points) / 72 for points in PdfReader(path).pages[0].mediabox[2:])
        latex.append(latex_figure(name, words[name], wide=width > SINGLE_COLUMN + 0.1))
        size = f"{width:.1f} × {height:.1f} inches"
        heading = f"## {name}\n\n[{name}.pdf]({name}.pdf), {size}"
        markdown.append(f"{heading}\n\n{captions.markdown(words[name])}\n")
        with atomic(args.folder / f"{name}.pdf") as temporary:
            shutil.copyfile(path, temporary)
    write_text(args.folder / "captions.tex", "\n".join(latex))
    write_text(args.folder / "captions.md", "\n".join(markdown))


def latex_figure(name: str, caption: str, *, wide: bool) -> str:
    """Return a figure environment of LaTeX, across both columns if ``wide``.

    The file is included at its own size, so that its letters have theirs.
    """
    environment = "figure*" if wide else "figure"
    return rf"""\begin{{{environment}}}
  \centering
  \includegraphics{{{name}.pdf}}
  \caption{{{captions.latex(caption)}}}
  \label{{fig:{name}}}
\end{{{environment}}}
"""


if __name__ == "__main__":
    raise SystemExit(main())

"""Collect figures for a paper: PDFs that a printer takes, and captions in LaTeX and Markdown."""

import shutil
from pathlib import Path

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic, write_text
from ntk_conditioning.plotting.style import DOUBLE_COLUMN, PAGE, SINGLE_COLUMN
from ntk_workflow.cli import Argv, Parser, UsageError, named_path, run_main
from ntk_workflow.figures import captions, vector_pdf
from ntk_workflow.figures.vector_pdf import VectorPdf

#: Of all letters, indices too, in points.
LEAST_LETTERS = 5.0
#: How far a page may be from the width of a column, in inches: far less than a hair.
SLACK = 0.001
HEADER = (
    "% The figures of a run for a paper: \\input{captions}, or copy what you need.\n"
    "% Their PDFs are included at their own size, for columns of "
    f"{SINGLE_COLUMN:g} and pages of {DOUBLE_COLUMN:g} inches."
)


class UnprintableError(UserError):
    """A figure is not as papers want it."""


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
    pages = {name: printable(path) for name, path in figures.items()}
    words = {name: captions.read(texts[name]) for name in figures}
    for name, path in figures.items():
        with atomic(args.folder / f"{name}.pdf") as temporary:
            shutil.copyfile(path, temporary)
    write_text(args.folder / "captions.tex", latex(pages, words))
    write_text(args.folder / "captions.md", markdown(pages, words))


def printable(path: Path) -> VectorPdf:
    """Return a figure's page, or raise `UnprintableError` with all that is wrong with it."""
    page = vector_pdf.inspect(path)
    problems = []
    if not any(abs(page.width - width) < SLACK for width in (SINGLE_COLUMN, DOUBLE_COLUMN)):
        widths = f"{SINGLE_COLUMN:g} or {DOUBLE_COLUMN:g}"
        problems.append(f"it is {page.width:.2f} inches wide, not {widths}")
    if page.height > PAGE + SLACK:
        problems.append(f"it is {page.height:.2f} inches tall, more than {PAGE:g}")
    if page.letters < LEAST_LETTERS:
        problems.append(f"it has letters of {page.letters:.1f} pt, less than {LEAST_LETTERS:g}")
    if foreign := sorted(font for font, fine in page.fonts.items() if not fine):
        problems.append(f"not embedded as TrueType: {', '.join(foreign)}")
    if page.outside:
        problems.append(f"{page.outside} texts begin beyond its edge")
    if page.images:
        problems.append(f"it has {page.images} pictures made of pixels")
    if problems:
        raise UnprintableError(f"{path}: {'; '.join(problems)}; see plotting.use_style")
    return page


def latex(pages: dict[str, VectorPdf], words: dict[str, str]) -> str:
    """Return figure environments, the wide figures across both columns."""
    parts = [HEADER]
    for name, page in pages.items():
        wide = page.width > SINGLE_COLUMN + SLACK
        parts.append(captions.latex_figure(words[name], file=f"{name}.pdf", label=name, wide=wide))
    return "\n\n".join(parts) + "\n"


def markdown(pages: dict[str, VectorPdf], words: dict[str, str]) -> str:
    """Return a section for every figure, with its caption."""
    sections = [
        f"## {name}\n\n[{name}.pdf]({name}.pdf), {page.width:.1f} × {page.height:.1f} inches\n\n"
        f"{captions.markdown(words[name])}\n"
        for name, page in pages.items()
    ]
    return "\n".join(["# Figures\n", *sections])


if __name__ == "__main__":
    raise SystemExit(main())

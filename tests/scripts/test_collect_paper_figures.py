"""Figures for a paper: copied, with captions in LaTeX and in Markdown."""

from pathlib import Path

import collect_paper_figures
import pytest
from matplotlib.figure import Figure

from ntk_conditioning import plotting

WIDTHS = {"one_fig1": plotting.SINGLE_COLUMN, "one_fig2": plotting.DOUBLE_COLUMN}
CAPTION = r"""
**Angles & more of {}.** The angle :math:`\theta_{{\mathrm{{in}}}}` of 100 % of the *inputs*
(“_” and # are signs); :math:`\kappa^{{-1}}` as well.
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with two figures and their captions."""
    for name, width in WIDTHS.items():
        Figure(figsize=(width, 2.0)).savefig(tmp_path / f"{name}.pdf")
        (tmp_path / f"{name}.rst").write_text(CAPTION.format(name[-1]), encoding="utf-8")
    return tmp_path


def arguments(given: Path) -> list[str]:
    figures = ["--figures", *(f"{name}={given}/{name}.pdf" for name in WIDTHS)]
    texts = ["--captions", *(f"{name}={given}/{name}.rst" for name in WIDTHS)]
    return [*figures, *texts, f"--folder={given}/paper"]


def test_figures_are_collected_with_their_captions(given):
    assert collect_paper_figures.main(arguments(given)) == 0
    files = {path.name: path.read_bytes() for path in (given / "paper").iterdir()}
    pdfs = {f"{name}.pdf": (given / f"{name}.pdf").read_bytes() for name in WIDTHS}
    latex, markdown = (files[f"captions.{kind}"].decode() for kind in ("tex", "md"))
    assert files == {"captions.tex": latex.encode(), "captions.md": markdown.encode()} | pdfs
    header, first, second = latex.split("\n\n")
    assert header.endswith("for columns of 3.4 and pages of 7 inches.")
    assert first.startswith("\\begin{figure}\n")
    assert second.startswith("\\begin{figure*}\n")  # across both columns
    assert r"\caption{\textbf{Angles \& more of 1.} The angle $\theta_{\mathrm{in}}$" in first
    assert r"\emph{inputs} (“\_” and \# are signs); $\kappa^{-1}$ as well.}" in first
    assert "\n## one_fig1\n" in markdown
    assert (
        r"**Angles & more of 2.** The angle $\theta_{\mathrm{in}}$ of 100 % of the *inputs* "
        r"(“_” and # are signs); $\kappa^{-1}$ as well."
    ) in markdown.splitlines()

"""Figures for a paper: copied, with captions in LaTeX and in Markdown."""

from pathlib import Path

import collect_paper_figures
from matplotlib.figure import Figure

from ntk_conditioning import plotting

WIDTHS = {"one_fig1": plotting.SINGLE_COLUMN, "one_fig2": plotting.DOUBLE_COLUMN}
CAPTION = r"""
**Angles & more of {}.** The angle :math:`\theta_{{\mathrm{{in}}}}` of 100 % of the *inputs*
(“_” and # are signs); :math:`\kappa^{{-1}}` as well.
"""


def test_figures_are_collected_with_their_captions(tmp_path: Path):
    for name, width in WIDTHS.items():
        Figure(figsize=(width, 2.0)).savefig(tmp_path / f"{name}.pdf")
        (tmp_path / f"{name}.rst").write_text(CAPTION.format(name[-1]), encoding="utf-8")
    figures = ["--figures", *(f"{name}={tmp_path}/{name}.pdf" for name in WIDTHS)]
    texts = ["--captions", *(f"{name}={tmp_path}/{name}.rst" for name in WIDTHS)]
    assert collect_paper_figures.main([*figures, *texts, f"--folder={tmp_path}/paper"]) == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "paper").iterdir()}
    pdfs = {f"{name}.pdf": (tmp_path / f"{name}.pdf").read_bytes() for name in WIDTHS}
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

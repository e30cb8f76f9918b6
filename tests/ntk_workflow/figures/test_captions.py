"""Captions become LaTeX and Markdown, and files that are none are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ntk_conditioning.files import MissingFileError
from ntk_workflow.figures import captions
from ntk_workflow.figures.captions import CaptionError

TEXT = r"""
**Angles & more.** The angle :math:`\theta_{\mathrm{in}}` of 100 % of the *inputs*
(“_” and # are signs); :math:`\kappa^{-1}` as well.
"""


def test_a_caption_is_one_line_in_both_languages(tmp_path: Path) -> None:
    path = tmp_path / "caption.rst"
    path.write_text(TEXT, encoding="utf-8")
    caption = captions.read(path)
    assert captions.markdown(caption) == (
        r"**Angles & more.** The angle $\theta_{\mathrm{in}}$ of 100 % of the *inputs* "
        r"(“_” and # are signs); $\kappa^{-1}$ as well."
    )
    assert captions.latex(caption) == (
        r"\textbf{Angles \& more.} The angle $\theta_{\mathrm{in}}$ of 100 \% of the \emph{inputs} "
        r"(“\_” and \# are signs); $\kappa^{-1}$ as well."
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it has 0"),
        ("One.\n\nTwo.", "it has 2"),
        ("- a list", "bullet_list"),
        ("A `link <https://example.org>`_.", "reference"),
        (":unknown:`role`", "not reStructuredText"),
        ("**open", "not reStructuredText"),
    ],
)
def test_what_is_no_caption_is_refused_in_one_line(text: str, what: str, tmp_path: Path, capsys):
    path = tmp_path / "caption.rst"
    with pytest.raises(MissingFileError, match=r"caption\.rst"):
        captions.read(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaptionError, match=what) as caught:
        captions.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1
    assert capsys.readouterr() == ("", "")

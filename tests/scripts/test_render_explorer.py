"""The explorer of a run without tables, and what it says of two samples."""

import json
import re

import pandas as pd
import render_explorer

from ntk_workflow.explorer import page


def content(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.S)
    return text, json.loads(found[1])


def test_a_run_without_tables_has_the_theory_and_the_same_bytes_again(tmp_path):
    for name in ("a.html", "b.html"):
        assert render_explorer.main(["--run=x", f"--output={tmp_path / name}"]) == 0
    text, held = content(tmp_path / "a.html")
    assert list(held["specs"]) == ["pair"]
    assert 'data-view="depth"' not in text
    assert text == (tmp_path / "b.html").read_text(encoding="utf-8")


def test_two_samples_have_the_kernel_of_equation_11(tmp_path):
    assert render_explorer.main(["--run=x", f"--output={tmp_path / 'a.html'}"]) == 0
    pairs = pd.DataFrame(content(tmp_path / "a.html")[1]["data"]["pairs"])
    linear = pairs[(pairs.depth == 0)]
    assert (abs(linear["gradient"] - linear["angle"]) < 1e-4).all()
    wide = pairs[(pairs.activation == "relu") & (pairs.angle == 20)].set_index("depth")
    assert wide["gradient"].is_monotonic_increasing
    assert wide["embedding"].is_monotonic_decreasing


def test_a_library_is_taken_from_a_page_only_if_it_is_the_same(tmp_path, monkeypatch):
    """If the first fails with another vl-convert, `page.LIBRARIES` needs the new sha256."""
    genuine, forged, again = (tmp_path / f"{name}.html" for name in ("genuine", "forged", "again"))
    assert render_explorer.main(["--run=x", f"--output={genuine}"]) == 0
    text = genuine.read_text(encoding="utf-8")
    forged.write_text(text.replace("vega", "vegan"), encoding="utf-8")
    monkeypatch.setattr(page, "library", lambda: "made anew")
    assert render_explorer.main(["--run=x", f"--like={genuine}", f"--output={again}"]) == 0
    assert again.read_text(encoding="utf-8") == text
    assert render_explorer.main(["--run=x", f"--like={forged}", f"--output={again}"]) == 0
    assert "<script>made anew</script>" in again.read_text(encoding="utf-8")

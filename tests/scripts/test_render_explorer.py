"""The explorer of a run without tables, and what it says of two samples."""

import json
import re

import pandas as pd
import render_explorer


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

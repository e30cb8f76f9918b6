"""Pages of a report: what a table has is there to be read, and nothing is asked of any server."""

import json
import re
from pathlib import Path

import pandas as pd
import render_explorer
import render_page

from ntk_conditioning import tables
from tests.support.rows import write


def page(*sources: Path) -> str:
    output = sources[0].with_name("page.html")
    assert render_page.main(["--sources", *map(str, sources), f"--output={output}"]) == 0
    assert not re.search(r"src=|href=|url\(|@import|<script", output.read_text())
    return output.read_text()


def test_every_column_and_row_of_a_table_is_there(tmp_path):
    first = {"kernel": "<0>", "seeds": 0, "kappa_mean": 0.123456}
    path = write(tmp_path / "conditioning.parquet", "conditioning", first, {"kernel": "a<1>"})
    text = page(path)
    names = re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert names == tables.get("conditioning").schema.names
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    rows = [dict(zip(names, cells[k : k + len(names)], strict=True)) for k in (0, len(names))]
    shown = [(row["kernel"], row["seeds"], row["kappa_mean"]) for row in rows]
    assert shown == [("&lt;0&gt;", "0", "0.1235"), ("a&lt;1&gt;", "1", "–")]
    assert len(cells) == 2 * len(names)
    assert 'title="mean over blocks and seeds, as liu2023relu reports it"' in text


def test_the_record_is_as_it_was_written(tmp_path):
    (tmp_path / "config.yaml").write_text("depths: [1, 2]\nnote: <b>\n")
    (tmp_path / "versions.json").write_text('{"torch": "2"}')
    text = page(tmp_path / "config.yaml", tmp_path / "versions.json")
    assert "<pre>depths: [1, 2]\nnote: &lt;b&gt;\n</pre>" in text
    assert "<h2>Versions</h2>" in text


def test_an_explorer_without_tables_has_the_theory_and_the_same_bytes_again(tmp_path):
    for name in ("a.html", "b.html"):
        assert render_explorer.main(["--run=x", f"--output={tmp_path / name}"]) == 0
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.html").read_text(encoding="utf-8")
    assert 'data-view="depth"' not in text
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.S)
    held = json.loads(found[1])
    assert list(held["specs"]) == ["pair"]
    # two samples have the kernel of equation 11
    pairs = pd.DataFrame(held["data"]["pairs"])
    linear = pairs[(pairs.depth == 0)]
    assert (abs(linear["gradient"] - linear["angle"]) < 1e-4).all()
    wide = pairs[(pairs.activation == "relu") & (pairs.angle == 20)].set_index("depth")
    assert wide["gradient"].is_monotonic_increasing
    assert wide["embedding"].is_monotonic_decreasing

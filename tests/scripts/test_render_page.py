"""Pages of a report: what a table has is there to be read, and nothing is asked of any server."""

import re
from pathlib import Path

import pytest
import render_page

from ntk_conditioning import tables
from tests.rows import write


@pytest.fixture
def page(tmp_path: Path):
    """Return a function that makes a page of some files, alike twice, and returns its text."""

    def text(*sources: Path) -> str:
        output, made = tmp_path / "pages" / "page.html", []
        for _ in range(2):
            assert render_page.main(["--sources", *map(str, sources), f"--output={output}"]) == 0
            made.append(output.read_text())
        assert made[0] == made[1]
        assert '<meta name="viewport"' in made[0]
        assert not re.search(r"src=|href=|url\(|@import|<script", made[0])
        return made[0]

    return text


def test_every_column_and_row_of_a_table_is_there(page, tmp_path):
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


def test_the_record_is_as_it_was_written(page, tmp_path):
    (tmp_path / "config.yaml").write_text("depths: [1, 2]\nnote: <b>\n")
    (tmp_path / "versions.json").write_text('{"torch": "2"}')
    text = page(tmp_path / "config.yaml", tmp_path / "versions.json")
    assert "<pre>depths: [1, 2]\nnote: &lt;b&gt;\n</pre>" in text
    assert "<h2>Versions</h2>" in text
    assert "<table>" not in text

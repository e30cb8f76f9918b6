"""Pages of a report: what a table has is there to be read, and nothing is asked of any server."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
import render_pages

from ntk_conditioning import tables
from ntk_conditioning.tables.conditioning import CONDITIONING
from ntk_workflow.pages.html import text_page


def value(column: tables.Column, number: int) -> object:
    if column.nullable and number == 1:
        return None
    if pa.types.is_string(column.type):
        return f"{column.name}<{number}>"
    return number if pa.types.is_integer(column.type) else number + 0.123456


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    rows = [{column.name: value(column, i) for column in CONDITIONING.columns} for i in range(2)]
    tables.write(
        tmp_path / "conditioning.parquet", CONDITIONING, tables.from_rows(CONDITIONING, rows)
    )
    (tmp_path / "config.yaml").write_text("depths: [1, 2]\nnote: <b>\n")
    (tmp_path / "versions.json").write_text('{"torch": "2"}')
    return [
        f"--tables={tmp_path}/conditioning.parquet",
        f"--config={tmp_path}/config.yaml",
        f"--versions={tmp_path}/versions.json",
        f"--folder={tmp_path}/pages",
    ]


def test_every_column_and_row_of_a_table_is_there(arguments, tmp_path):
    assert render_pages.main(arguments) == 0
    page = (tmp_path / "pages/conditioning.html").read_text()
    names = re.findall(r"<th[^>]*>(.*?)</th>", page)
    assert names == [column.name for column in CONDITIONING.columns]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    assert len(cells) == 2 * len(names)
    row = dict(zip(names, cells[len(names) :], strict=True))
    assert row["kernel"] == "kernel&lt;1&gt;"
    assert row["seeds"] == "1"
    assert row["kappa_mean"] == "–"
    assert dict(zip(names, cells, strict=False))["kappa_mean"] == "0.1235"
    assert 'title="mean over blocks and seeds, as liu2023relu reports it"' in page


def test_the_record_is_as_it_was_written(arguments, tmp_path):
    render_pages.main(arguments)
    page = (tmp_path / "pages/run.html").read_text()
    assert "depths: [1, 2]\nnote: &lt;b&gt;\n" in page
    assert "torch" in page


def test_pages_load_nothing_and_are_the_same_every_time(arguments, tmp_path):
    render_pages.main(arguments)
    first = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert set(first) == {"conditioning.html", "run.html"}
    for text in first.values():
        assert not re.search(r"src=|href=|url\(|@import|<script", text)
    render_pages.main(arguments)
    assert first == {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}


def test_a_table_without_a_page_is_told_in_one_line(arguments, tmp_path, capsys):
    assert render_pages.main([f"--tables={tmp_path}/spectra.parquet", *arguments[1:]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "spectra.parquet: there are pages of datasets, conditioning, learning_rates only" in line


def test_a_page_of_a_text_alone_has_no_table():
    page = text_page({"Config": "a: 1"}, title="T")
    assert "<table>" not in page
    assert "<pre>a: 1</pre>" in page

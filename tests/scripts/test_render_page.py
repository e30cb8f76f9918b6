"""Pages of a report: what a table has is there to be read, and nothing is asked of any server."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
import render_page

from ntk_conditioning import tables
from ntk_conditioning.tables.conditioning import CONDITIONING


def value(column: tables.Column, number: int) -> object:
    if column.nullable and number == 1:
        return None
    if pa.types.is_string(column.type):
        return f"{column.name}<{number}>"
    return number if pa.types.is_integer(column.type) else number + 0.123456


@pytest.fixture
def page(tmp_path: Path):
    """Return a function that makes a page of some files, alike twice, and returns its text."""

    def text(*sources: Path) -> str:
        made = []
        for _ in range(2):
            output = tmp_path / "pages" / "page.html"
            arguments = ["--sources", *map(str, sources), f"--output={output}"]
            assert render_page.main(arguments) == 0
            made.append(output.read_text())
        assert made[0] == made[1]
        assert '<meta name="viewport"' in made[0]
        assert not re.search(r"src=|href=|url\(|@import|<script", made[0])
        return made[0]

    return text


def test_every_column_and_row_of_a_table_is_there(page, tmp_path):
    rows = [{column.name: value(column, i) for column in CONDITIONING.columns} for i in range(2)]
    path = tmp_path / "conditioning.parquet"
    tables.write(path, CONDITIONING, tables.from_rows(CONDITIONING, rows))
    text = page(path)
    names = re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert names == [column.name for column in CONDITIONING.columns]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    first, second = (
        dict(zip(names, part, strict=True)) for part in (cells[: len(names)], cells[len(names) :])
    )
    assert first["kappa_mean"] == "0.1235"
    assert (second["kernel"], second["seeds"], second["kappa_mean"]) == (
        "kernel&lt;1&gt;",
        "1",
        "–",
    )
    assert 'title="mean over blocks and seeds, as liu2023relu reports it"' in text


def test_the_record_is_as_it_was_written(page, tmp_path):
    (tmp_path / "config.yaml").write_text("depths: [1, 2]\nnote: <b>\n")
    (tmp_path / "versions.json").write_text('{"torch": "2"}')
    text = page(tmp_path / "config.yaml", tmp_path / "versions.json")
    assert "<pre>depths: [1, 2]\nnote: &lt;b&gt;\n</pre>" in text
    assert "<h2>Versions</h2>" in text
    assert "<table>" not in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spectra.parquet", "there are pages of datasets, conditioning, learning_rates only"),
        ("config.yaml", "config.yaml does not exist"),
    ],
)
def test_what_has_no_page_is_named_in_one_line(tmp_path, capsys, name, message):
    arguments = ["--sources", str(tmp_path / name), f"--output={tmp_path}/page.html"]
    assert render_page.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line

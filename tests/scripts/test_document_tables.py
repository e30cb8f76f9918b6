"""The results page says what the tables declare."""

from __future__ import annotations

import document_tables


def test_the_page_is_up_to_date():
    text = document_tables.README.read_text(encoding="utf-8")
    remedy = "run: make document-tables"
    assert document_tables.documented(text) == text, remedy


def test_every_column_is_on_the_page():
    text = document_tables.README.read_text(encoding="utf-8")
    for table in document_tables.TABLES.values():
        assert f"### `{table.name}`" in text
        assert all(f"| `{column.name}` |" in text for column in table.columns)


def test_a_stale_page_is_brought_up_to_date(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{document_tables.START}stale text\n{document_tables.END}after\n")
    assert document_tables.main(["--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale text" not in text
    assert "`kappa_nonzero`" in text

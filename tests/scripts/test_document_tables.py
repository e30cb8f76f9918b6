"""The results page says what the tables declare."""

import document_tables

PAGE = document_tables.README.read_text(encoding="utf-8")
TABLES = document_tables.TABLES


def test_the_page_says_what_the_files_say():
    for name, table in TABLES.items():
        section = PAGE.split(f"### `{name}`\n")[1].split("\n### ")[0]
        assert table.schema.metadata[b"description"].decode() in section
        for field in table.schema:
            described = field.metadata[b"description"].decode()
            unit = field.metadata.get(b"unit", b"").decode()
            missing = ", may be missing" if field.nullable else ""
            text = f"{described} [{unit}]" if unit else described
            assert f"| `{field.name}` | {field.type}{missing} | {text} |\n" in section


def test_a_stale_page_is_brought_up_to_date(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(PAGE.replace("| `kappa_nonzero`", "| `stale`"), encoding="utf-8")
    assert document_tables.main(["--page", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == PAGE, "run: make document-tables"
    assert "`kappa_nonzero`" in PAGE

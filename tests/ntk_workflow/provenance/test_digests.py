"""The code digest changes with meaning and with nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from ntk_workflow.provenance import digests as provenance
from ntk_workflow.provenance.digests import path_digest, source_digest

PROGRAM = '''"""What it does."""
import numpy
import helper
from ntk_conditioning import alpha
from ntk_conditioning.sub.beta import g


def main():
    """Doc."""
    return alpha.f(1) + g(2)  # a comment
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "ntk_conditioning"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text('"""Package."""\n')
    (package / "sub" / "__init__.py").write_text("")
    (package / "alpha.py").write_text(
        "from ntk_conditioning import gamma\n\ndef f(x):\n    return x\n"
    )
    (package / "gamma.py").write_text("C = 1\n")
    (package / "sub" / "beta.py").write_text("def g(x):\n    return 2 * x\n")
    (package / "unused.py").write_text("U = 1\n")
    (package / "sub" / "beta.yaml").write_text("column: int64\n")
    (package / "sub" / "templates").mkdir()
    (package / "sub" / "templates" / "page.md.j2").write_text("# {{ title }}\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "helper.py").write_text("H = 1\n")
    (tmp_path / "scripts" / "program.py").write_text(PROGRAM)
    return tmp_path


def digest(tree: Path, program: str = "scripts/program.py") -> str:
    return source_digest(tree / program, source=tree / "src")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("scripts/program.py", "  # a comment", "  # another remark"),
        ("scripts/program.py", '"""Doc."""', '"""Better doc, \\n longer."""'),
        ("scripts/program.py", '"""What it does."""', ""),
        ("scripts/program.py", "alpha.f(1) + g(2)", "(\n        alpha.f(1)\n        + g(2)\n    )"),
        ("src/ntk_conditioning/unused.py", "U = 1", "U = 2"),
        ("src/ntk_conditioning/alpha.py", "return x", "return x  # why"),
    ],
)
def test_what_cannot_change_a_result_keeps_the_digest(tree, file, old, new):
    before = digest(tree)
    replace(tree / file, old, new)
    assert digest(tree) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("scripts/program.py", "g(2)", "g(3)"),
        ("scripts/helper.py", "H = 1", "H = 2"),
        ("src/ntk_conditioning/alpha.py", "return x", "return -x"),
        ("src/ntk_conditioning/gamma.py", "C = 1", "C = 2"),
        ("src/ntk_conditioning/sub/beta.py", "2 * x", "3 * x"),
        ("src/ntk_conditioning/__init__.py", '"""Package."""', "VERSION = 1"),
        ("src/ntk_conditioning/sub/beta.yaml", "int64", "float64"),
        ("src/ntk_conditioning/sub/templates/page.md.j2", "title", "name"),
    ],
)
def test_what_can_change_a_result_changes_the_digest(tree, file, old, new):
    before = digest(tree)
    replace(tree / file, old, new)
    assert digest(tree) != before


def test_an_import_inside_a_function_is_followed(tree):
    replace(
        tree / "scripts/program.py",
        "return alpha",
        "import ntk_conditioning.unused\n    return alpha",
    )
    before = digest(tree)
    replace(tree / "src/ntk_conditioning/unused.py", "U = 1", "U = 2")
    assert digest(tree) != before


def test_notebooks_count_by_their_code(tree):
    def write(source: str, text: str, outputs: list) -> None:
        cells = [
            {"cell_type": "markdown", "source": [text]},
            {"cell_type": "code", "source": [source], "outputs": outputs},
        ]
        (tree / "figure.ipynb").write_text(json.dumps({"cells": cells}))

    write("from ntk_conditioning import gamma\nprint(gamma.C)", "words", [])
    before = digest(tree, "figure.ipynb")
    write("from ntk_conditioning import gamma\nprint(gamma.C)", "other words", [{"x": 1}])
    assert digest(tree, "figure.ipynb") == before
    replace(tree / "src/ntk_conditioning/gamma.py", "C = 1", "C = 2")
    assert digest(tree, "figure.ipynb") != before


def test_the_digest_does_not_depend_on_the_place(tree, tmp_path_factory):
    import shutil

    other = tmp_path_factory.mktemp("elsewhere") / "clone"
    shutil.copytree(tree, other)
    assert digest(other) == digest(tree)


class TestPathDigest:
    def test_a_file_is_its_content_and_not_its_time(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"one")
        first = path_digest(path)
        assert first == hashlib.sha256(b"one").hexdigest()
        os.utime(path, (1, 1))
        assert path_digest(path) == first
        assert path_digest(tmp_path / "absent") == ""

    def test_a_folder_is_its_files_names_and_sizes(self, tmp_path):
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "a.flac").write_bytes(b"123")
        first = path_digest(tmp_path)
        (tmp_path / "empty").mkdir()
        assert path_digest(tmp_path) == first
        (tmp_path / "sub" / "a.flac").write_bytes(b"1234")
        longer = path_digest(tmp_path)
        (tmp_path / "sub" / "a.flac").rename(tmp_path / "sub" / "b.flac")
        assert len({first, longer, path_digest(tmp_path)}) == 3

    def test_of_a_large_file_both_ends_and_the_size_count(self, tmp_path, monkeypatch):
        monkeypatch.setattr(provenance, "WHOLE", 1000)
        path = tmp_path / "a"
        digests = set()
        for content in (b"x" * 2000, b"y" + b"x" * 1999, b"x" * 1999 + b"y", b"x" * 2001):
            path.write_bytes(content)
            digests.add(path_digest(path))
        assert len(digests) == 4

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from ntk_workflow.provenance import digests as provenance
from ntk_workflow.provenance.digests import path_digest, source_digest

PACKAGE, PROGRAM = "src/ntk_conditioning", "scripts/program.py"
CELLS = [{"cell_type": "markdown", "source": ["words"]}]
CODE = "from ntk_conditioning import delta\nprint(delta.D)"
CELLS += [{"cell_type": "code", "source": [CODE], "outputs": []}]
FILES = {
    f"{PACKAGE}/__init__.py": '"""Package."""\n',
    f"{PACKAGE}/alpha.py": "from ntk_conditioning import gamma\n\ndef f(x):\n    return x\n",
    f"{PACKAGE}/gamma.py": "C = 1\n",
    f"{PACKAGE}/delta.py": "D = 1\n",
    f"{PACKAGE}/unused.py": "U = 1\n",
    f"{PACKAGE}/sub/__init__.py": "",
    f"{PACKAGE}/sub/beta.py": "def g(x):\n    return 2 * x\n",
    f"{PACKAGE}/sub/beta.yaml": "column: int64\n",
    f"{PACKAGE}/sub/templates/page.md.j2": "# {{ title }}\n",
    f"{PACKAGE}/tables/__init__.py": "TABLES = {}\n",
    f"{PACKAGE}/tables/angles.yaml": "keys: [x]\ncolumns:\n  x: as in spectra\n",
    f"{PACKAGE}/tables/spectra.yaml": "keys: [x]\ncolumns:\n  x: int64\n",
    f"{PACKAGE}/tables/other.yaml": "keys: [x]\ncolumns:\n  x: int64\n",
    "scripts/helper.py": "H = 1\n",
    "scripts/program.yaml": "run: mine\n",
    "figure.ipynb": json.dumps({"cells": CELLS}),
    PROGRAM: '''"""What it does."""
import numpy
import helper
from ntk_conditioning import alpha, tables


def main():
    """Doc."""
    from ntk_conditioning.sub.beta import g
    tables.write("x", "angles", [])
    return alpha.f(1) + g(2)  # a comment
''',
}
REMARKS = [
    (PROGRAM, "  # a comment", "  # another remark"),
    (PROGRAM, '"""Doc."""', '"""Better doc, \\n longer."""'),
    (PROGRAM, '"""What it does."""', ""),
    (PROGRAM, "f(1) + g(2)", "f(\n        1\n    ) + g(2)"),
    (f"{PACKAGE}/unused.py", "U = 1", "U = 2"),
    ("scripts/program.yaml", "mine", "yours"),
    (f"{PACKAGE}/alpha.py", "return x", "return x  # why"),
    (f"{PACKAGE}/tables/other.yaml", "int64", "float64"),
    ("figure.ipynb", "words", "other words"),
    ("figure.ipynb", '"outputs": []', '"outputs": [{"x": 1}]'),
]
CHANGES = [
    (PROGRAM, "g(2)", "g(3)"),
    ("scripts/helper.py", "H = 1", "H = 2"),
    (f"{PACKAGE}/alpha.py", "return x", "return -x"),
    (f"{PACKAGE}/gamma.py", "C = 1", "C = 2"),
    (f"{PACKAGE}/sub/beta.py", "2 * x", "3 * x"),
    (f"{PACKAGE}/__init__.py", '"""Package."""', "VERSION = 1"),
    (f"{PACKAGE}/sub/beta.yaml", "int64", "float64"),
    (f"{PACKAGE}/sub/templates/page.md.j2", "title", "name"),
    ("figure.ipynb", "print(", "repr("),
    ("figure.ipynb", "from ", r"%matplotlib inline\nfrom "),  # which is no Python
    (f"{PACKAGE}/delta.py", "D = 1", "D = 2"),
    (f"{PACKAGE}/tables/spectra.yaml", "int64", "float64"),  # as in which angles are
    (PROGRAM, "g(3)", "g(tables.TABLES)"),  # by which it depends on all of them
    (f"{PACKAGE}/tables/other.yaml", "float64", "int64"),
]


def digest(tree: Path) -> str:
    return source_digest(tree / PROGRAM, tree / "figure.ipynb", source=tree / "src")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_only_what_can_change_a_result_changes_the_digest(tmp_path):
    tree = tmp_path / "tree"
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    before = digest(tree)
    assert digest(shutil.copytree(tree, tmp_path / "elsewhere")) == before
    for file, old, new in REMARKS:
        replace(tree / file, old, new)
        assert digest(tree) == before, file
    digests = {before}
    for file, old, new in CHANGES:
        replace(tree / file, old, new)
        assert digest(tree) not in digests, file
        digests.add(digest(tree))


def test_a_file_is_its_content_and_a_folder_the_names_and_contents_of_its_files(tmp_path):
    path, folder = tmp_path / "sub/a.flac", tmp_path
    path.parent.mkdir()
    path.write_bytes(b"123")
    first = path_digest(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/left.pyc").write_bytes(b"by Python")
    os.utime(path, (1, 1))
    assert path_digest(folder) == first
    assert path_digest(path) == hashlib.sha256(b"123").hexdigest()
    assert path_digest(folder / "absent") == ""
    path.write_bytes(b"124")
    changed = path_digest(folder)
    path.rename(folder / "sub/b.flac")
    assert len({first, changed, path_digest(folder)}) == 3


def test_large_data_are_known_by_their_sizes_and_times(tmp_path, monkeypatch):
    """What is not read whenever Snakemake starts."""
    path = tmp_path / "corpus/a.flac"
    path.parent.mkdir()
    path.write_bytes(bytes(30))
    monkeypatch.setattr(provenance, "LARGE", 30)
    monkeypatch.setattr(provenance, "sha256", lambda path: pytest.fail(f"{path} is read"))

    def digests() -> list[str]:
        return [path_digest(path), path_digest(path.parent)]

    before = digests()
    assert digests() == before
    os.utime(path, (1, 1))
    touched = digests()
    path.write_bytes(bytes(31))
    assert len({*before, *touched, *digests()}) == 6

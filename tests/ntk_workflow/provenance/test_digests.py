"""The code digest changes with meaning and with nothing else."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from ntk_conditioning.files import sha256
from ntk_workflow.provenance import digests as provenance
from ntk_workflow.provenance.digests import path_digest, source_digest

PACKAGE = "src/ntk_conditioning"
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
    "scripts/helper.py": "H = 1\n",
    "scripts/program.yaml": "run: mine\n",
    "scripts/program.py": '''"""What it does."""
import numpy
import helper
from ntk_conditioning import alpha
from ntk_conditioning.sub.beta import g


def main():
    """Doc."""
    import ntk_conditioning.delta
    return alpha.f(1) + g(2)  # a comment
''',
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(tree: Path, program: str = "scripts/program.py") -> str:
    return source_digest(tree / program, source=tree / "src")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


PROGRAM = "scripts/program.py"
REMARKS = [
    (PROGRAM, "  # a comment", "  # another remark"),
    (PROGRAM, '"""Doc."""', '"""Better doc, \\n longer."""'),
    (PROGRAM, '"""What it does."""', ""),
    (PROGRAM, "f(1) + g(2)", "f(\n        1\n    ) + g(2)"),
    (f"{PACKAGE}/unused.py", "U = 1", "U = 2"),
    ("scripts/program.yaml", "mine", "yours"),
    (f"{PACKAGE}/alpha.py", "return x", "return x  # why"),
]
CHANGES = [
    (PROGRAM, "g(2)", "g(3)"),
    ("scripts/helper.py", "H = 1", "H = 2"),
    (f"{PACKAGE}/alpha.py", "return x", "return -x"),
    (f"{PACKAGE}/gamma.py", "C = 1", "C = 2"),
    (f"{PACKAGE}/delta.py", "D = 1", "D = 2"),
    (f"{PACKAGE}/sub/beta.py", "2 * x", "3 * x"),
    (f"{PACKAGE}/__init__.py", '"""Package."""', "VERSION = 1"),
    (f"{PACKAGE}/sub/beta.yaml", "int64", "float64"),
    (f"{PACKAGE}/sub/templates/page.md.j2", "title", "name"),
]


def test_only_what_can_change_a_result_changes_the_digest(tree, tmp_path_factory):
    before = digest(tree)
    other = tmp_path_factory.mktemp("elsewhere") / "clone"
    assert digest(shutil.copytree(tree, other)) == before
    for file, old, new in REMARKS:
        replace(tree / file, old, new)
        assert digest(tree) == before, file
    digests = {before}
    for file, old, new in CHANGES:
        replace(tree / file, old, new)
        assert digest(tree) not in digests, file
        digests.add(digest(tree))


def test_what_an_earlier_process_has_read_is_not_parsed_again(tree, monkeypatch):
    def digest_of_a_new_process() -> str:
        provenance._inspect.cache_clear()
        provenance._notes.cache_clear()
        result = digest(tree)
        provenance._keep(provenance._notes(), provenance.NOTES, before=0)  # as when it ends
        return result

    monkeypatch.chdir(tree)
    provenance.NOTES.parent.mkdir()
    before = digest_of_a_new_process()
    with monkeypatch.context() as patch:
        patch.delattr(provenance, "_parsed")
        assert digest_of_a_new_process() == before
    replace(tree / PROGRAM, "g(2)", "g(3)")
    assert digest_of_a_new_process() != before
    replace(tree / PROGRAM, "g(3)", "g(2)")
    provenance.NOTES.write_text("{")
    assert digest_of_a_new_process() == before


def test_notebooks_count_by_their_code(tree):
    def digest_with(text: str, outputs: list) -> str:
        code = "from ntk_conditioning import gamma\nprint(gamma.C)"
        cells = [{"cell_type": "markdown", "source": [text]}]
        cells += [{"cell_type": "code", "source": [code], "outputs": outputs}]
        (tree / "figure.ipynb").write_text(json.dumps({"cells": cells}))
        return digest(tree, "figure.ipynb")

    before = digest_with("words", [])
    assert digest_with("other words", [{"x": 1}]) == before
    replace(tree / "src/ntk_conditioning/gamma.py", "C = 1", "C = 2")
    assert digest(tree, "figure.ipynb") != before


def test_a_file_is_its_content_and_a_folder_the_names_and_contents_of_its_files(tmp_path):
    path, folder = tmp_path / "a", tmp_path / "folder"
    path.write_bytes(b"one")
    assert path_digest(path) == hashlib.sha256(b"one").hexdigest()
    os.utime(path, (1, 1))
    assert path_digest(path) == hashlib.sha256(b"one").hexdigest()
    assert path_digest(tmp_path / "absent") == ""

    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a.flac").write_bytes(b"123")
    first = path_digest(folder)
    (folder / "empty").mkdir()
    assert path_digest(folder) == first
    (folder / "sub/a.flac").write_bytes(b"124")
    changed = path_digest(folder)
    (folder / "sub/a.flac").rename(folder / "sub/b.flac")
    assert len({first, changed, path_digest(folder)}) == 3


@pytest.mark.parametrize("size", [30, 30_000_000])
def test_what_has_not_changed_is_read_once(tmp_path, monkeypatch, size):
    """A corpus and a large file, edited in the middle with size and mtime as before."""
    read = []

    def counted(path):
        read.append(path.name)
        return sha256(path)

    monkeypatch.setattr(provenance, "sha256", counted)
    monkeypatch.setattr(provenance, "_TICK", 50_000_000)
    monkeypatch.chdir(tmp_path)
    provenance.CONTENTS.parent.mkdir()
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("a.flac", "b.flac"):
        (folder / name).write_bytes(bytes(size))
    path = folder if size < 1000 else folder / "b.flac"
    time.sleep(0.1)  # what is younger than the file system's clock tells is read again
    before = path_digest(path)
    read.clear()
    assert path_digest(path) == before
    assert read == []

    times = (folder / "b.flac").stat()
    with (folder / "b.flac").open("r+b") as stream:
        stream.seek(size // 2)
        stream.write(b"1")
    os.utime(folder / "b.flac", ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = path_digest(path)
    assert changed != before
    assert read == ["b.flac"]
    provenance.CONTENTS.write_text("{")
    assert path_digest(path) == changed

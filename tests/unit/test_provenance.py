"""The code digest changes with meaning and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ntk_conditioning.provenance import source_digest

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
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "helper.py").write_text("H = 1\n")
    (tmp_path / "scripts" / "program.py").write_text(PROGRAM)
    return tmp_path


def digest(tree: Path, program: str = "scripts/program.py") -> str:
    return source_digest(tree / program, package=tree / "src" / "ntk_conditioning")


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

"""The program runs toy notebooks: what it keeps, what it refuses, and what it says."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
import run_notebook

from ntk_workflow.yaml_files import to_words

PARAMETERS = "words: list = [\n    'a',\n    'b',\n]\npdf = 'x.pdf'\n"
DRAW = """\
import sys, warnings
from pathlib import Path
import matplotlib.pyplot as plt
print(sys.executable)
for k in range(300):
    print(words, k)
    sys.stdout.flush()
warnings.warn("a cell's own")
Path(pdf).write_text("figure")
plt.plot([1, 2]);
"""


class Toy:
    """A notebook of a few cells in a temporary folder, run in process."""

    def __init__(self, folder: Path) -> None:
        self.notebook, self.pdf = folder / "toy.ipynb", folder / "figures" / "toy.pdf"
        self.output = folder / "executed" / "toy.ipynb"
        self.failed = folder / "logs" / "toy.failed.ipynb"
        self.parameters = {"words": ["c"], "pdf": str(self.pdf)}
        self.pdf.parent.mkdir()

    def write(self, *cells: str) -> None:
        new = nbformat.v4.new_code_cell
        code = [new(PARAMETERS, id="parameters", metadata={"tags": ["parameters"]})]
        code += [new(cell, id=f"step-{k}") for k, cell in enumerate(cells)]
        metadata = {"kernelspec": run_notebook.KERNEL}
        nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=metadata), self.notebook)

    def run(self) -> int:
        files = [f"--output={self.output}", f"--failed={self.failed}", "--outputs", str(self.pdf)]
        words = ["--parameters", *to_words(self.parameters)]
        return run_notebook.main([str(self.notebook), *files, *words])


@pytest.fixture
def toy(tmp_path) -> Toy:
    return Toy(tmp_path)


def one_line(capfd) -> str:
    """Return what the program says; libraries may warn before it, once in a process."""
    out, err = capfd.readouterr()
    (line,) = (line for line in err.splitlines() if "run_notebook" in line or "toy" in line)
    assert not out
    return line


def test_the_executed_notebook_is_the_same_every_time(toy, capfd):
    toy.write(DRAW)
    assert toy.run() == 0
    assert capfd.readouterr() == ("", "")  # neither a progress bar nor the libraries' warnings
    first = toy.output.read_bytes()
    assert not toy.failed.exists()
    assert toy.run() == 0
    assert toy.output.read_bytes() == first

    executed = nbformat.read(toy.output, as_version=4)
    nbformat.validate(executed)
    assert set(executed.metadata) == {"kernelspec", "language_info"}
    cells = {cell.id: cell for cell in executed.cells}
    assert list(cells) == ["parameters", "injected-parameters", "step-0"]
    assert str(toy.pdf) in cells["injected-parameters"].source
    assert [set(cell.metadata) for cell in cells.values()] == [{"tags"}, {"tags"}, set()]

    printed, warned, drawn = cells["step-0"].outputs
    python, *lines = printed.text.splitlines()
    assert python == os.path.relpath(sys.executable, sys.prefix)
    assert lines == [f"['c'] {k}" for k in range(300)]
    assert warned.text.startswith("cell:8: UserWarning: a cell's own")
    assert "image/png" in drawn.data


FAILURES = [
    ("import os; os.remove(pdf)", "it ran, but did not write "),
    ("raise ValueError('two\\nlines')", "cell [4]: ValueError: two lines; see "),
    ("import os; os._exit(1)", "the kernel died, "),
]


@pytest.mark.parametrize(("cell", "problem"), FAILURES)
def test_a_failed_notebook_is_kept_and_no_output(toy, capfd, cell, problem):
    toy.write("open(pdf, 'w').close(); print('before')", cell, "print('after')")
    toy.output.parent.mkdir()
    for path in (toy.output, toy.pdf):
        path.write_text("of an earlier run")
    assert toy.run() == 2
    line = one_line(capfd)
    assert f"{toy.notebook}: {problem}" in line
    assert str(toy.failed) in line
    assert "before" in toy.failed.read_text()
    assert not list(toy.output.parent.iterdir())


def test_other_parameters_and_other_files_are_refused_before_anything_runs(toy, capfd):
    assert toy.run() == 2
    assert f"No such file or directory: '{toy.notebook}'" in one_line(capfd)
    for text in ("pdf = 1", "{}"):
        toy.notebook.write_text(text)
        assert toy.run() == 2
        assert f"{toy.notebook}: not a notebook" in one_line(capfd)
    toy.write(DRAW)
    toy.pdf.write_text("old")
    toy.parameters = {"pfd": "", "b": 1, "words": []}
    assert toy.run() == 2
    problem = "unknown parameters: b, pfd; missing: pdf; it takes: pdf, words"
    assert one_line(capfd) == f"run_notebook: error: {toy.notebook}: {problem}"
    assert toy.pdf.read_text() == "old"
    assert not toy.failed.exists()

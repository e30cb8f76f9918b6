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
TOY, PDF = Path("toy.ipynb"), Path("figures/toy.pdf")
OUTPUT, FAILED = Path("executed/toy.ipynb"), Path("logs/toy.failed.ipynb")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    PDF.parent.mkdir()


def write(*cells: str) -> None:
    new = nbformat.v4.new_code_cell
    code = [new(PARAMETERS, id="parameters", metadata={"tags": ["parameters"]})]
    code += [new(cell, id=f"step-{k}") for k, cell in enumerate(cells)]
    metadata = {"kernelspec": run_notebook.KERNEL}
    nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=metadata), TOY)


def run(**parameters: object) -> int:
    words = to_words(parameters or {"words": ["c"], "pdf": str(PDF)})
    files = [f"--output={OUTPUT}", f"--failed={FAILED}", f"--outputs={PDF}"]
    return run_notebook.main([str(TOY), *files, "--parameters", *words])


@pytest.fixture
def refusal(capfd):
    """Return a function that runs what fails, and returns the one line of error."""

    def refuse(**parameters: object) -> str:
        assert run(**parameters) == 2
        out, err = capfd.readouterr()
        # libraries may warn before it, once in a process
        (line,) = (line for line in err.splitlines() if "run_notebook" in line or "toy" in line)
        assert not out
        return line.removeprefix(f"run_notebook: error: {TOY}: ")

    return refuse


def test_the_executed_notebook_is_the_same_every_time(capfd):
    write(DRAW)
    assert run() == 0
    assert capfd.readouterr() == ("", "")  # neither a progress bar nor the libraries' warnings
    first = OUTPUT.read_bytes()
    assert not FAILED.exists()
    assert run() == 0
    assert OUTPUT.read_bytes() == first

    executed = nbformat.read(OUTPUT, as_version=4)
    nbformat.validate(executed)
    assert set(executed.metadata) == {"kernelspec", "language_info"}
    cells = {cell.id: cell for cell in executed.cells}
    assert list(cells) == ["parameters", "injected-parameters", "step-0"]
    assert str(PDF) in cells["injected-parameters"].source
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
def test_a_failed_notebook_is_kept_and_no_output(refusal, cell, problem):
    write("open(pdf, 'w').close(); print('before')", cell, "print('after')")
    OUTPUT.parent.mkdir()
    for path in (OUTPUT, PDF):
        path.write_text("of an earlier run")
    line = refusal()
    assert line.startswith(problem)
    assert str(FAILED) in line
    assert "before" in FAILED.read_text()
    assert not list(OUTPUT.parent.iterdir())


def test_other_parameters_and_other_files_are_refused_before_anything_runs(refusal):
    assert f"No such file or directory: '{TOY}'" in refusal()
    for text in ("pdf = 1", "{}"):
        TOY.write_text(text)
        assert refusal().startswith("not a notebook")
    write(DRAW)
    PDF.write_text("old")
    problem = "unknown parameters: b, pfd; missing: pdf; it takes: pdf, words"
    assert refusal(pfd="", b=1, words=[]) == problem
    assert PDF.read_text() == "old"
    assert not FAILED.exists()

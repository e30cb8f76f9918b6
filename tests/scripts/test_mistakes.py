"""Mistakes in arguments and papers that need no data, and what all programs share."""

from pathlib import Path

import advise_dataset
import aggregate_table
import check_claims
import measure_activations
import measure_precision
import pytest
import threadpoolctl
import torch
import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.threads import limit_threads
from ntk_workflow import cli
from tests.support.rows import write

OUTPUT = "--output=table.parquet"
PRECISION = f"--samples=4 --dim=3 --width=16 --depths 0 --points=5 --seeds 1 {OUTPUT}"
MINE = "--dataset=mine --page=page.html"
LARGE = PRECISION.replace("=4", "=2000000").replace("=3", "=2000001")


MISTAKES = [
    (aggregate_table, "--table=spectra --rows none.parquet", "none.parquet: no such table"),
    (aggregate_table, "--table=spectra --rows one.parquet", "not a spectra table of this vers"),
    (aggregate_table, "--table=datasets --rows one.parquet one.parquet", "1 rows repeat the k"),
    (advise_dataset, f"{MINE} --data=x.csv", "x.csv: line 2, column 'b' is 'x', not a number"),
    (advise_dataset, f"{MINE} --data=1.csv", "1.csv has shape (1, 2); it must be (2 or more"),
    (measure_activations, "--activation norm_relu", "did you mean 'normrelu'"),
    (measure_precision, PRECISION, "the kernel of a problem is singular; give wider networks"),
    (measure_precision, LARGE, "out of memory (Unable to allocate 29.1 TiB for an array"),
]


@pytest.mark.parametrize(("program", "arguments", "problem"), MISTAKES)
def test_a_mistake_is_one_line(program, arguments, problem, refusal):
    write(Path("one.parquet"), "datasets", {})
    for row in "1x":
        Path(f"{row}.csv").write_text(f"a,b\n1,{row}\n")
    words = arguments.split() + ([] if "output=" in arguments else [OUTPUT])
    assert problem in refusal(program, words)


CLAIM = {"name": "a", "place": "Theorem 1", "kind": "theory", "statement": "Something."}
CLAIM |= {"table": "claim_experiments", "quantity": "value", "comparison": "<", "target": 1}
UNKNOWN = {"formula": {"printed": r"\foo", "corrected": "x"}}
UNBALANCED = {"formula": {"printed": "x^{2}}{", "corrected": "x"}}
#: Changes of a claim, or of several, and the message.
CLAIMS = [
    ([{"kind": "guess"}], "liu2023relu.yaml: claims[0].kind: 'guess' is not one of"),
    ([{"colour": "red"}], "unknown key 'claims[0].colour'; known: comparison"),
    ([{"quantity": "valeu"}], "claim a: quantity: there is no column 'valeu' in claim_exp"),
    ([{"table": "angels"}], "liu2023relu.yaml: no run has the table angels of the claim a"),
    ([{"where": ["at <"]}], "claim a: where: 'at <': invalid syntax"),
    ([{}, {}], "liu2023relu.yaml: claims named twice: a"),
    ([{"paper_size": "width +"}], "claim a: paper_size: 'width +': invalid syntax"),
    ([UNKNOWN], r"claim a: formula.printed: '\\foo': \foo is not known"),
    ([UNBALANCED], "is no formula: NoAvailableTokensError"),
    ([{}], "claim_experiments.parquet: not a readable Parquet file"),
]


@pytest.mark.parametrize(("changes", "problem"), CLAIMS)
def test_a_mistake_in_a_paper_or_a_damaged_table_is_one_line(changes, problem, refusal):
    table, paper = Path("claim_experiments.parquet"), Path("liu2023relu.yaml")
    write(table, "claim_experiments", {"paper": "liu2023relu"})
    if changes == [{}]:
        table.write_bytes(table.read_bytes()[:-100])
    content = {"title": "t", "citation": "c", "claims": [CLAIM | change for change in changes]}
    paper.write_text(yaml.safe_dump(content), encoding="utf-8")
    outputs = ["--output=claims.parquet", "--markdown=c.md", "--html=c.html", "--findings=c.rst"]
    words = [f"--papers={paper}", f"--tables={table}", "--run=small", *outputs]
    assert problem in refusal(check_claims, words)


def test_errors_of_the_user_are_a_line_and_defects_keep_their_traceback(capsys):
    def called(error: Exception) -> str:
        @cli.program
        def main(argv=None):
            raise error

        assert main([]) == 2
        return capsys.readouterr().err.removeprefix("test_mistakes: error: ")

    assert called(UserError("first\nsecond")) == "first second\n"
    assert called(PermissionError(13, "Permission denied", "a.npz")).endswith("denied: 'a.npz'\n")
    for defect in (KeyError("a"), RuntimeError("shapes differ")):
        with pytest.raises(type(defect)):
            called(defect)


@pytest.mark.usefixtures("one_thread")
def test_the_loaded_libraries_are_limited():
    with threadpoolctl.threadpool_limits():  # restores what this test changes
        for threads in (2, 1):
            limit_threads(threads)
            pools = threadpoolctl.threadpool_info()
            assert {pool["num_threads"] for pool in pools} == {torch.get_num_threads()}
            assert torch.get_num_threads() == threads

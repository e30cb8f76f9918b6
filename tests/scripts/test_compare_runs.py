import json
import re
import shutil
import zipfile
from pathlib import Path

import compare_runs
import pytest

from ntk_workflow.bundle import archive
from tests.support.rows import write as write_table

HOLDS = {"verdict": "holds", "measured": 1.5}
VERDICTS = {"theorem_1": HOLDS, "theorem_2": {"verdict": "fails"}}
CONFIG = {"run": "tiny", "balanced": 1, "training": {"fig3": {"epochs": 5}}}
VERSIONS = {"ntk-conditioning": {"version": "0.1.0", "code": "aa"}, "libraries": {"numpy": "2.4.6"}}


def run(name: str, *, verdicts=VERDICTS, sha256="0", config=CONFIG, versions=VERSIONS) -> Path:
    """Write a run and return its folder."""
    folder = Path(name)
    rows = [{"paper": "liu2023relu", "claim": claim} | found for claim, found in verdicts.items()]
    write_table(folder / "tables/claims.parquet", "claims", *rows)
    write_table(folder / "tables/datasets.parquet", "datasets", {"dataset": "a", "sha256": sha256})
    (folder / "record").mkdir()
    (folder / "record/config.yaml").write_text(json.dumps(config))  # which is YAML, too
    (folder / "record/versions.json").write_text(json.dumps(versions))
    return folder


def bundle(folder: Path) -> Path:
    payload, target = Path("bag", folder.name), folder.with_suffix(".zip")
    shutil.copytree(folder, payload / "results/tiny")
    archive.make_bag(payload, {"Bagging-Date": "2026-01-02"})
    archive.pack(payload, target)
    return target


@pytest.fixture
def compared(capsys):
    """Return a function that compares two runs and returns status, page and JSON."""

    def call(a: Path, b: Path, *options: str):
        status = compare_runs.main([str(a), str(b), "--json=comparison.json", *options])
        return status, capsys.readouterr().out, json.loads(Path("comparison.json").read_text())

    return call


def test_a_run_equals_its_copy_in_any_form(compared):
    a, b = run("a"), run("b")
    for copy in (b, bundle(b)):
        status, page, comparison = compared(a, copy)
        assert (status, comparison["equal"]) == (0, True)
        assert page.startswith("# Nothing differs\n")
        assert "2 the same, 0 differ" in page
        assert "absent" not in page


def test_every_part_that_differs_is_named(compared):
    other = {"theorem_1": {"verdict": "holds under a condition", "measured": 1.2}}
    given = {"verdicts": other | {"theorem_3": HOLDS}, "sha256": "1"}
    given["config"] = CONFIG | {"balanced": True, "training": {"fig3": {"epochs": 7}}}
    given["config"] |= {"new": "a | b"}
    given["versions"] = VERSIONS | {"ntk-conditioning": {"version": "0.1.0", "code": "bb"}}
    given["versions"] |= {"libraries": {}}
    status, page, comparison = compared(run("a"), bundle(run("b", **given)))
    assert status == 1
    assert comparison["config"] == [
        {"name": "balanced", "a": 1, "b": True},
        {"name": "new", "a": "(absent)", "b": "a | b"},
        {"name": "training.fig3.epochs", "a": 5, "b": 7},
    ]
    assert [change["name"] for change in comparison["code"]] == ["workflow"]
    assert comparison["versions"] == [{"name": "libraries.numpy", "a": "2.4.6", "b": "(absent)"}]
    assert comparison["data"] == [{"name": "a", "a": "0", "b": "1"}]
    only_a = [{"paper": "liu2023relu", "claim": "theorem_2"}]
    assert comparison["tables"]["claims"]["only_a"] == only_a
    assert "- 1 rows only in B, of 1 in both: liu2023relu, theorem_3" in page
    assert {*page.splitlines()} > {
        "| `new` | (absent) | a \\| b |",
        "- `measured` differs in 1 of 1 rows, by 0.2 at most:",
        "  - liu2023relu, theorem_1: 1.5 → 1.2",
        "  - liu2023relu, theorem_1: holds → holds under a condition",
    }


def test_missing_numbers_and_those_that_print_alike(compared):
    a, b = run("a"), run("b", verdicts={"theorem_1": {"verdict": "holds"}})
    c = run("c", verdicts=VERDICTS | {"theorem_1": HOLDS | {"measured": 1.5 + 2**-52}})
    assert "liu2023relu, theorem_1: 1.5 → missing" in compared(a, b)[1]
    assert "1.5 → 1.5000000000000002" in compared(a, c)[1]
    assert compared(a, c, "--tolerance", "1e-9")[0] == 0


def test_of_numbers_that_differ_the_largest_change_is_the_example(compared):
    a = run("a", verdicts=dict.fromkeys(("theorem_1", "theorem_2", "equal"), HOLDS))
    values = {"theorem_1": 1.6, "theorem_2": 3.0, "equal": 1.5}
    b = run("b", verdicts={claim: HOLDS | {"measured": x} for claim, x in values.items()})
    page = compared(a, b)[1]
    assert "`measured` differs in 2 of 3 rows, by 0.5 at most:\n  - liu2023relu, theorem_2:" in page


def test_what_only_one_run_has_is_a_difference(compared):
    a, b = run("a"), run("b")
    (b / "record/config.yaml").unlink()
    status, page, _ = compared(a, b)
    assert (status, "| `not recorded` | (absent) |" in page) == (1, True)
    (b / "tables/claims.parquet").unlink()
    _, page, comparison = compared(a, b)
    assert comparison["tables_a"] == ["claims"]
    assert "tables only in A: claims" in page


def test_what_is_no_run_is_one_line(refusal):
    a, changed, damaged = run("a"), bundle(run("b")), run("c")
    again = archive.unpack(changed, Path("again"))
    record = again / "record/versions.json"
    record.write_text(record.read_text().replace("aa", "ab"))
    archive.pack(again.parents[2], changed)
    (damaged / "tables/claims.parquet").write_bytes(b"PAR1")
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("run/data/results/tiny/tables/claims.parquet", bytes(10**6))
    for path, message in {
        a / "absent": "does not exist",
        a / "record": r"has no tables/\*\.parquet",
        a / "record/config.yaml": "no bundle: File is not a zip file",
        changed: r"no bundle: .*versions\.json sha256 validation failed",
        "bomb.zip": "larger than the archive: a zip bomb",
        damaged: "table claims is damaged",
    }.items():
        assert re.search(message, refusal(compare_runs, [path, a]))

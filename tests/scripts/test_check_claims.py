"""The claims of a paper's file beside tables of a run: table, pages, and mistakes in the file."""

import html
from pathlib import Path

import check_claims
import pytest
import run_claim_experiments
import yaml

from ntk_conditioning import tables

PAPER = Path(__file__).parents[2] / "papers" / "liu2023relu.yaml"


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("tables") / "claim_experiments.parquet"
    options = "--papers liu2023relu --widths 64 128 256 --depths 1 2 --seeds 1 --threads 1"
    assert run_claim_experiments.main([*options.split(), f"--output={output}"]) == 0
    return output


def arguments(paper: Path, table: Path) -> list[str]:
    outputs = (
        "--output=claims.parquet --markdown=claims.md --html=claims.html --findings=claims.rst"
    )
    return [f"--papers={paper}", f"--tables={table}", "--run=small", *outputs.split()]


def test_every_claim_of_the_paper_has_a_verdict(measured: Path):
    assert check_claims.main(arguments(PAPER, measured)) == 0
    rows = tables.read(Path("claims.parquet"), "claims").to_pylist()
    claims = yaml.safe_load(PAPER.read_text(encoding="utf-8"))["claims"]
    assert {row["claim"] for row in rows} == {claim["name"] for claim in claims}
    for row in rows:  # only the experiments' table was given
        untested = row["verdict"] == "not tested in this run"
        assert untested == (row["table"] != "claim_experiments"), row["claim"]
        assert untested == (row["measured"] is None)
    for name in ("claims.md", "claims.html"):
        text = html.unescape(Path(name).read_text(encoding="utf-8"))
        assert all(claim["place"] in text for claim in claims)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert check_claims.main(arguments(PAPER, measured)) == 0
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


CLAIM = {"name": "a", "place": "Theorem 1", "kind": "theory", "statement": "Something."}
CLAIM |= {"table": "claim_experiments", "quantity": "value", "comparison": "<", "target": 1}
UNKNOWN = {"formula": {"printed": r"\foo", "corrected": "x"}}
UNBALANCED = {"formula": {"printed": "x^{2}}{", "corrected": "x"}}


def test_mistakes_in_a_paper_and_a_damaged_table_are_one_line(measured, refusal):
    for changes, message in (
        ([{"kind": "guess"}], "liu2023relu.yaml: claims[0].kind: 'guess' is not one of"),
        ([{"colour": "red"}], "unknown key 'claims[0].colour'; known: comparison"),
        ([{"quantity": "valeu"}], "claim a: quantity: there is no column 'valeu' in claim_exp"),
        ([{"table": "angels"}], "liu2023relu.yaml: no run has the table angels of the claim a"),
        ([{"where": ["at <"]}], "claim a: where: 'at <': invalid syntax"),
        ([{}, {}], "liu2023relu.yaml: claims named twice: a"),
        ([{"paper_size": "width +"}], "claim a: paper_size: 'width +': invalid syntax"),
        ([UNKNOWN], r"claim a: formula.printed: '\\foo': \foo is not known"),
        ([UNBALANCED], "is no formula: NoAvailableTokensError"),
    ):
        paper = Path("liu2023relu.yaml")
        content = {"title": "t", "citation": "c", "claims": [CLAIM | change for change in changes]}
        paper.write_text(yaml.safe_dump(content), encoding="utf-8")
        assert message in refusal(check_claims, arguments(paper, measured))
    damaged = Path("claim_experiments.parquet")
    damaged.write_bytes(measured.read_bytes()[:-100])
    line = refusal(check_claims, arguments(PAPER, damaged))
    assert "claim_experiments.parquet: not a readable Parquet file" in line

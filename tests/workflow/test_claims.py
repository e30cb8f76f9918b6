"""The claims of a finished run, and mistakes in a paper's file before anything runs."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tests.clone import Clone

pytestmark = pytest.mark.slow
CI = ("--configfile", "config/ci.yaml")


def test_claims_are_compared_with_the_tables_of_the_run(finished: Clone):
    results = finished.folder / "results/ci"
    claims = pq.read_table(results / "tables/claims.parquet").to_pandas().set_index("claim")
    # the smallest run trains no linear networks and none of SELU, and one depth only with the
    # code's scale
    untested = set(claims.index[claims["verdict"] == "not tested in this run"])
    selu = {"figure_7_selu", "figure_8_selu", "figure_8_higher"}
    assert untested == {"section_6_linear", "figure_3_depth_code"} | selu
    assert (claims.loc[claims["verdict"] == "holds", "cases"] > 0).all()
    # every cell of a dataset that has depth 0, beside its Gram matrix
    spectra = pq.read_table(results / "tables/spectra.parquet").to_pandas()
    with_gram = spectra["dataset"].isin(spectra.loc[spectra["depth"] == 0, "dataset"])
    relu = spectra[with_gram].query("activation == 'relu' and depth > 0")
    compared = claims.loc["section_1_gram"]
    assert compared["cases"] + compared["undecided"] == len(relu) > 0
    page = (results / "claims.html").read_text(encoding="utf-8")
    assert page.count("<h3 id=") == len(claims)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("table: angles", "table: angels", "papers/liu2023relu.yaml: no run has the table angels"),
        ("claims:", "claim:", "papers/liu2023relu.yaml: not a paper's claims: 'claims'"),
        (
            "quantity: ",
            "quantity: depth.to_csv('planted') + ",
            "papers/liu2023relu.yaml: claim proposition_2_2_lambda_min: quantity: "
            "\"depth.to_csv('planted')\" is not allowed; allowed are",
        ),
    ],
)
def test_mistakes_in_a_paper_are_told_before_anything_runs(clone: Clone, old, new, message):
    clone.edit("papers/liu2023relu.yaml", old, new)
    told = clone.run("-n", *CI, check=False)
    assert told.returncode != 0
    assert message in told.stdout + told.stderr


def test_a_paper_that_is_not_there_is_told_with_those_that_are(clone: Clone):
    told = clone.run("-n", *CI, "--config", "papers=[liu2023relu,liu2024]", check=False)
    assert told.returncode != 0
    known = "agarwal2021deep, liu2022transition, liu2023relu"
    expected = f"config key papers: there is no papers/liu2024.yaml; there are: {known}"
    assert expected in told.stdout + told.stderr

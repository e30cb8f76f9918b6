import pytest

from tests.support.claim_mutants import survivors
from tests.support.clone import Clone
from tests.workflow.conftest import CI

pytestmark = pytest.mark.slow


def test_claims_are_compared_with_the_tables_of_the_run(finished: Clone):
    claims = finished.table("results/ci/tables/claims.parquet").set_index("claim")
    untested = set(claims.index[claims["verdict"] == "not tested in this run"])
    assert untested == {
        # no linear networks and none of SELU are trained, one depth only with the code's scale and
        # by gradient descent, and each depth at its own rates
        *("section_6_linear", "figure_7_selu", "figure_8_selu", "figure_8_higher"),
        *("figure_7_selu_train", "figure_8_selu_train"),
        *("figure_3_depth_code", "section_6_square_loss", "section_6_square_loss_relative"),
        *("figure_3_every_rate_images", "figure_3_every_rate_speech", "figure_3_every_rate_code"),
        *("figure_3_common_rate", "figure_3_common_rate_code", "figure_3_depth_epochs_code"),
        *("section_6_predicted_time", "section_6_kappa_explains"),
        *("section_6_label_energy_explains", "section_6_prediction", "label_bound"),
        "label_spectrum",
        # no dataset has as many samples as a block of the paper's code
        *("block_order", "block_size", "depth_slows", "lambda_max_as_n"),
        # and their experiments are left out
        *("section_6_critical_rate", "section_6_momentum"),
        # no DenseNet or linear network is wide enough, no dataset has more samples than dimensions
        *("appendix_e_data", "finite_linear_rate", "section_5_rank"),
        # the map has few samples, close ones only at one distance, and four layers
        *("law_uniform", "law_uniform_square", "law_few_dimensions", "law_equicorrelated"),
        *("law_power_law", "far_samples", "close_samples", "close_samples_kinked"),
        *("ordered_phase", "chaotic_phase", "chaotic_rate"),
    }
    assert (claims.loc[claims["verdict"] == "holds", "cases"] > 0).all()
    # every cell of a dataset that has depth 0, beside its Gram matrix
    spectra = finished.table("results/ci/tables/spectra.parquet")
    with_gram = spectra["dataset"].isin(spectra.loc[spectra["depth"] == 0, "dataset"])
    relu = spectra[with_gram].query("activation == 'relu' and depth > 0")
    compared = claims.loc["section_1_gram"]
    assert compared["cases"] + compared["undecided"] == len(relu) > 0
    page = (finished.folder / "results/ci/claims.html").read_text(encoding="utf-8")
    assert page.count('<details class="claim"') == len(claims)


def test_no_claim_stays_confirmed_when_what_it_states_is_changed(finished: Clone):
    found, tried = survivors(finished.folder / "results/ci/tables")
    assert (found, tried > 300) == ([], True)


def test_mistakes_in_papers_are_told_together_before_anything_runs(clone: Clone):
    clone.edit("papers/liu2023relu.yaml", "table: angles", "table: angels")
    clone.edit("papers/liu2022transition.yaml", "claims:", "claim:")
    clone.edit("papers/phase_diagram.yaml", "quantity: ", "quantity: kapa + ")
    papers = "papers=[phase_diagram,liu2023relu,liu2022transition,agarwal2021deep,liu2024]"
    text = clone.run("-n", *CI, "--config", papers, fails=True)
    assert "papers/liu2023relu.yaml: no run has the table angels" in text
    assert "papers/liu2022transition.yaml: unknown key 'claim'; did you mean 'claims'?" in text
    assert "quantity: there is no column 'kapa' in phase; did you mean 'kappa" in text
    known = "agarwal2021deep, followups, liu2022transition, liu2023relu"
    assert f"config key papers: there is no papers/liu2024.yaml; there are: {known}" in text

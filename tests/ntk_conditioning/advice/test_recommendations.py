"""Advice on samples of which the right advice is known by construction."""

import math
from itertools import combinations
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from ntk_conditioning.advice import recommendations
from ntk_conditioning.advice.drawing import draw
from ntk_conditioning.advice.geometry import geometry
from ntk_conditioning.advice.recommendations import advise
from ntk_conditioning.advice.words import in_words
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting.looks import label
from ntk_conditioning.theory.sphere import unit_rows
from tests.ntk_conditioning.references import samples

NAMES = ("relu", "erf", "sigmoid", "normalized_relu")


def advised(x, labels=None, *, depths=(1, 4), deepest=0):
    """Return the advice, and its sentences by heading; networks of finite width take longest."""
    options = {"activations": [activations.get(each) for each in NAMES], "depths": depths}
    with mock.patch.object(recommendations, "DEEPEST", deepest):
        advice = advise("mine", x, labels, **options)
    return advice, {title: " ".join(sentences) for title, sentences in in_words(advice).items()}


def uniform(n: int, d: int) -> np.ndarray:
    return unit_rows(samples(n, d))


def test_geometry_is_that_of_all_pairs():
    units, norms = uniform(300, 4), np.random.default_rng(1).uniform(1, 3, (300, 1))
    found = geometry("mine", np.vstack([np.zeros(4), norms * units]))
    pairs, cosines = [*combinations(range(1, 301), 2)], 1 - pdist(units, "cosine")
    assert (found.i, found.j) == pairs[cosines.argmax()]
    assert found.min_angle == pytest.approx(np.degrees(np.arccos(cosines.max())), rel=1e-6)
    assert found.mean_cosine == pytest.approx(cosines.mean(), abs=1e-12)
    assert found.effective_dimension == pytest.approx(4, rel=0.1)
    assert (found.rank, found.duplicates, found.zeros, len(found.rows)) == (4, 0, 1, 300)


def test_equal_samples_are_to_be_removed_and_count_once():
    x = np.vstack([uniform(40, 20), uniform(40, 20)[:3], np.zeros((2, 20))])
    (advice, said), (once, _) = advised(x), advised(uniform(40, 20))
    assert (advice.geometry.duplicates, advice.geometry.zeros, advice.block) == (3, 2, 40)
    assert "Samples 0 and 40, 1 and 41, 2 and 42 are equal (counted from 0)" in said["Your samples"]
    assert "Remove the 2 samples that are zero. Remove all but one" in said["What to do first"]
    pd.testing.assert_frame_equal(advice.predictions, once.predictions)


def test_one_long_sample_is_to_be_divided_by_its_norm_in_float64():
    x = uniform(60, 120).astype(np.float32)
    x[7] *= 30
    advice, said = advised(x)
    assert advice.preparation == "unit_norm"
    assert said["What to do first"].startswith("Divide each sample by its norm: kappa goes from ")
    kappas = {each.repair: each.kappa for each in reversed(advice.repairs)}
    assert kappas["none"] / kappas["unit_norm"] > 50  # the kernel's diagonal is the squared norms
    pd.testing.assert_frame_equal(advice.predictions, advised(x.astype(float))[0].predictions)


def test_features_of_other_units_are_to_be_standardised():
    x = np.random.default_rng(3).standard_normal((80, 12)) + 5
    advice, said = advised(x * 10.0 ** np.arange(-3, 9), (x[:, 0] > 5).astype(int))
    assert advice.preparation == "standardized_unit_norm"
    assert said["What to do first"].startswith("Bring each feature to mean 0 and variance 1")
    assert "gradient descent learns the labels" in said["What to do first"]
    assert "of 2 classes" in said["Your samples"]


def test_samples_of_low_rank_need_a_hidden_layer():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((90, 5)) @ rng.standard_normal((5, 40))
    advice, said = advised(x, depths=(1, 4, 16))
    assert advice.geometry.rank == 5
    assert advice.geometry.effective_dimension < 5.5
    assert advice.gram is None
    assert "the Gram matrix is singular" in said["What depth does"]
    relu = advice.predictions.kappa[advice.predictions.activation == "relu"]
    assert relu.notna().all()
    assert relu.is_monotonic_decreasing  # and depth helps


def test_orthogonal_samples_need_no_hidden_layer():
    advice, said = advised(np.eye(24) * 3)
    assert advice.gram == pytest.approx(1)
    assert "Leave samples as they are" in said["What to do first"]
    of = advice.predictions.set_index(["activation", "depth"]).kappa
    assert of["relu", 1] > 2  # its mean makes a spike
    assert of["erf", 1] == pytest.approx(1)
    assert advice.geometry.mean_cosine == pytest.approx(0, abs=1e-12)


def test_the_phases_and_the_widths_are_told():
    advice, said = advised(uniform(50, 6), depths=(1, 4, 16), deepest=16)
    assert "Do without sigmoid" in said["What depth does"]
    best = advice.predictions.query("depth <= 8").sort_values("kappa").activation.iloc[0]
    lowest = f"Of 4 activations the lowest up to 8 layers: {label('activation', best)} has"
    assert lowest in said["What depth does"]
    assert "ReLU: the lowest kappa at width 512" in said["How wide, and how deep"]
    of = advice.networks.set_index(["activation", "depth", "width"])
    assert of.excess["relu", 16, 128] > of.excess["relu", 16, 512] > 1
    assert of.trusted["relu", 16, 512] > 512
    assert {*advice.networks.activation} >= {"relu", "normalized_relu"}


def test_all_samples_are_predicted_from_a_block(monkeypatch):
    x = uniform(300, 24) + 0.5
    whole, _ = advised(x, depths=(1, 4, 16))
    monkeypatch.setattr(recommendations, "BLOCK", 100)
    part, _ = advised(x, depths=(1, 4, 16))
    keys = ["activation", "depth"]
    both = part.predictions.merge(whole.predictions, on=keys, suffixes=("", "_exact"))
    both = both[both.activation != "sigmoid"]
    assert len(both) >= 3 * 3
    assert (np.abs(np.log(both.kappa_of_all / both.kappa_exact)) < math.log(3)).all()


def test_the_figure_is_drawn_where_kernels_are_singular():
    parallel = np.kron([[1], [-1], [2]], uniform(6, 2))
    for x in (parallel, 1 + 1e-9 * uniform(20, 3)):
        figure = draw(advised(x, deepest=16)[0])
        figure.draw_without_rendering()
        assert len(figure.axes) == 3


def test_samples_that_allow_no_advice_are_refused():
    size = "values of size .* when they are squared; scale the samples"
    for x, problem in (
        ([[1.0, 0], [1, 0], [0, 1], [0, 0]], "2 different non-zero samples; advice needs four"),
        (np.zeros((5, 2)), "0 different non-zero samples"),
        *((uniform(20, 4) * scale, size) for scale in (1e200, 1e-200)),
        (np.arange(1.0, 9)[:, None], "all samples are parallel; "),
        (np.outer(np.arange(1, 9), [1.0, 2, 3]), "all samples are parallel; "),
    ):
        with pytest.raises(UserError, match=f"^mine: {problem}"):
            advised(x)

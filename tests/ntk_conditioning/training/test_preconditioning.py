"""Repairs by preconditioning, against explicit kernels and explicit descent."""

import numpy as np
import pytest

from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.sphere import unit_rows
from ntk_conditioning.training.preconditioning import prepared, repairs


@pytest.fixture
def found():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 6)) * rng.uniform(0.5, 2, (20, 1)) + 2
    y = np.eye(3)[rng.integers(3, size=20)]
    repaired = repairs(x, y, activation=activations.get("relu"), depth=2, directions=[1, 3])
    return x, y, {(one.place, one.repair, one.directions): one for one in repaired}


def kernel(x):
    x = x / np.sqrt(np.square(x).sum() / len(x))
    return infinite.InfiniteNetwork(x, depth=2, activation="relu").ntk


def test_repairs_are_what_they_say(found):
    x, _, repaired = found
    k, centring, centred = kernel(x), np.eye(20) - 1 / 20, x - x.mean(0)
    top, norms, spectrum = np.linalg.svd(x)[2][:3], np.sqrt(np.diag(k)), np.linalg.eigvalsh
    expected = {
        ("nothing", "none", 0): spectrum(k),
        ("samples", "centred", 0): spectrum(kernel(centred)),
        ("samples", "unit_norm", 0): spectrum(kernel(unit_rows(x))),
        ("samples", "standardized_unit_norm", 0): spectrum(kernel(unit_rows(centred / x.std(0)))),
        ("samples", "top_directions", 3): spectrum(kernel(x - x @ top.T @ top)),
        ("kernel", "centred", 0): spectrum(centring @ k @ centring)[1:],  # beside the mean's
        ("kernel", "unit_norm", 0): spectrum(k / np.outer(norms, norms)),
        ("kernel", "top_directions", 1): spectrum(k)[:-1],
    }
    assert len(repaired) == 11
    for key, (low, *_, high) in expected.items():
        repair = repaired[key]
        assert (repair.lambda_min, repair.lambda_max) == pytest.approx((low, high))
        assert repair.kappa == pytest.approx(high / low, rel=1e-9)


def test_steps_are_those_of_preconditioned_descent(found):
    """The linear model with the kernel as it is, and with its first eigenvalue brought down."""
    x, y, repaired = found
    values, vectors = np.linalg.eigh(kernel(x))
    for key, lowered in (
        (("nothing", "none", 0), values),
        (("kernel", "top_directions", 1), np.minimum(values, values[-2])),
    ):
        f, losses = np.zeros_like(y), []
        for _ in range(repaired[key].steps_hundredth + 1):
            losses.append(np.square(f - y).sum())
            f -= (vectors * lowered) @ vectors.T @ (f - y) / lowered[-1]
        share = np.array(losses) / losses[0]
        for name, level in (("half", 0.5), ("tenth", 0.1), ("hundredth", 0.01)):
            assert getattr(repaired[key], f"steps_{name}") == np.argmax(share <= level)


def test_labels_that_lie_where_nothing_is_learned_have_no_steps():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    y = np.array([[1.0], [-1.0], [0.0], [0.0]])  # of equal samples
    size = {"activation": activations.get("relu"), "depth": 1, "directions": [1]}
    plain = next(iter(repairs(x, y, **size)))
    assert (plain.kappa, plain.effective_kappa, plain.steps_half) == (None, None, None)


def test_directions_beyond_the_rank_leave_nothing():
    low = np.outer(np.arange(1.0, 9), [1.0, 2, 3])
    assert not prepared(low, "top_directions", directions=1).any()

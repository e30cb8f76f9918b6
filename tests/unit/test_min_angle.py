"""Angles between gradients are right to the last meaningful digit, and the smallest is found."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning import activations, empirical, smallest_angle
from ntk_conditioning.empirical import min_angle, pair_angle
from ntk_conditioning.gradient_angle import ZeroGradientError
from ntk_conditioning.networks import MLP, ShapeError, init_mlp
from ntk_conditioning.seeds import generator


def step(z):
    return mpmath.mpf(z > 0)


def half_normal_deviation():
    """The standard deviation of max(z, 0) for z ~ N(0, 1); its mean is 1/sqrt(2 pi)."""
    return mpmath.sqrt((1 - 1 / mpmath.pi) / 2)


DIGITS = {  # functions and derivatives at any number of digits
    "relu": (lambda z: z * step(z), step),
    "normalized_relu": (
        lambda z: (z * step(z) - 1 / mpmath.sqrt(2 * mpmath.pi)) / half_normal_deviation(),
        lambda z: step(z) / half_normal_deviation(),
    ),
    "tanh": (mpmath.tanh, lambda z: mpmath.sech(z) ** 2),
    "softplus": (lambda z: mpmath.log1p(mpmath.exp(z)), lambda z: 1 / (1 + mpmath.exp(-z))),
    "linear": (lambda z: z, lambda z: mpmath.mpf(1)),
}


def network(*, d=10, depth=2, width=16, activation="relu", seed=1):
    return init_mlp(
        d,
        depth=depth,
        width=width,
        activation=activations.get(activation),
        generator=generator(seed, "init"),
    )


def inputs(n, d=10, *, seed=1):
    return torch.from_numpy(generator(seed, "data").standard_normal((n, d)))


def exact_gradient(mlp, row):
    """Return the gradient as one long list in mpmath's digits, from the same float64 weights."""
    function, derivative = DIGITS[mlp.activation.name]
    weights = [mpmath.matrix(w.tolist()) for w in mlp.weights]
    alphas, slopes = [mpmath.matrix(row.tolist())], []
    for layer, weight in enumerate(weights[:-1], start=1):
        scale, z = mpmath.mpf(mlp.scale(layer)), weight * alphas[-1]
        alphas.append(scale * z.apply(function))
        slopes.append(scale * z.apply(derivative))
    delta, entries = mpmath.matrix([1]), []
    for layer in range(len(weights) - 1, -1, -1):
        entries += [b * a for b in delta for a in alphas[layer]]
        if layer:
            back = weights[layer].T * delta
            delta = mpmath.matrix([s * b for s, b in zip(slopes[layer - 1], back, strict=True)])
    return entries


@mpmath.workdps(50)
def exact_angles(mlp, x, pairs):
    """Return the angles between the gradients at pairs of rows of ``x``, right to 50 digits."""
    units = []
    for row in x:
        gradient = exact_gradient(mlp, row)
        size = mpmath.sqrt(mpmath.fsum(e**2 for e in gradient))
        units.append([e / size for e in gradient])
    angles = []
    for i, j in pairs:
        both = list(zip(units[i], units[j], strict=True))
        chord = mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in both))
        total = mpmath.sqrt(mpmath.fsum((a + b) ** 2 for a, b in both))
        angles.append(float(2 * mpmath.atan2(chord, total)))
    return angles


def exact_pair_angles(mlp, x1, x2):
    k = len(x1)
    return exact_angles(mlp, torch.cat([x1, x2]), [(i, k + i) for i in range(k)])


def turned(x, angle, *, seed=2):
    """Return the rows of ``x`` turned by about ``angle``."""
    across = inputs(*x.shape, seed=seed)
    across -= (across * x).sum(1, keepdim=True) / x.square().sum(1, keepdim=True) * x
    across *= x.norm(dim=1, keepdim=True) / across.norm(dim=1, keepdim=True)
    return x + angle * across


ALL = ["relu", "linear", "tanh", "softplus", "normalized_relu"]


@pytest.mark.parametrize("activation", ALL)
@pytest.mark.parametrize("depth", [0, 1, 3, 5])
@pytest.mark.parametrize("angle", [1e-9, 1e-6, 1e-3, 1.0])
def test_pairs_at_any_distance(activation, depth, angle):
    mlp, x1 = network(depth=depth, activation=activation), inputs(3)
    x2 = turned(x1, angle)
    expected = exact_pair_angles(mlp, x1, x2)
    assert angle / 10 < min(expected)
    # The midpoint rule hands over to the plain difference at 1e-11; both are exact for ReLU.
    rel = 1e-13 if mlp.activation.homogeneous else 1e-10
    assert pair_angle(mlp, x1, x2).tolist() == pytest.approx(expected, abs=0, rel=rel)


@pytest.mark.parametrize("depth", [0, 1, 3, 10])
@pytest.mark.parametrize("stretch", [1.1, 1e3, 1e-3])
def test_ratio_of_norms_costs_only_the_rounding_of_inputs(depth, stretch):
    """Rounding x2 to float64 turns it by about eps, part 1e-7 of this angle."""
    mlp, x1 = network(depth=depth), inputs(3)
    x2 = stretch * turned(x1, 1e-9)
    expected = exact_pair_angles(mlp, x1, x2)
    rel = 1e-6 if stretch != 1.1 else 1e-8  # the rounding is of the difference in norm
    assert pair_angle(mlp, x1, x2).tolist() == pytest.approx(expected, abs=0, rel=rel)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_obtuse_and_opposite_pairs(activation):
    mlp, x1 = network(depth=2, activation=activation), inputs(4)
    x2 = torch.cat([inputs(2, seed=5), -x1[2:3], turned(-2 * x1[3:], 0.1)])
    expected = exact_pair_angles(mlp, x1, x2)
    assert pair_angle(mlp, x1, x2).tolist() == pytest.approx(expected, abs=0, rel=1e-13)


def test_change_along_the_gradient_does_not_drown_the_angle():
    """Near 0 tanh is linear: moving along the ray scales the gradient and hardly turns it."""
    mlp, x1 = network(depth=2, activation="tanh"), 1e-4 * inputs(3)
    x2 = x1 * (1 + 1e-6)
    expected = exact_pair_angles(mlp, x1, x2)
    assert max(expected) < 1e-12
    assert pair_angle(mlp, x1, x2).tolist() == pytest.approx(expected, abs=0, rel=1e-2)


@pytest.mark.parametrize("activation", ["relu", "normalized_relu"])
@pytest.mark.parametrize("depth", [1, 3])
def test_pairs_on_two_sides_of_a_kink(activation, depth):
    """One unit of the first layer is switched on by a turn of 1e-9: the angle is far larger."""
    mlp, x1 = network(depth=depth, activation=activation), inputs(1)
    normal = mlp.weights[0][0]
    x1 -= (x1 @ normal / normal.square().sum()).unsqueeze(1) * normal
    x1 -= 1e-9 * normal
    x2 = x1 + 3e-9 * normal
    (expected,) = exact_pair_angles(mlp, x1, x2)
    assert expected > 1e-3
    assert pair_angle(mlp, x1, x2).item() == pytest.approx(expected, abs=0, rel=1e-12)


@given(seed=st.integers(0, 99), c=st.floats(1e-3, 1e3), depth=st.integers(0, 4))
def test_angles_are_symmetric_and_free_of_scale(seed, c, depth):
    mlp, x1 = network(depth=depth, seed=seed), inputs(3, seed=seed)
    x2 = turned(x1, 1e-3, seed=seed + 1)
    angles = pair_angle(mlp, x1, x2)
    torch.testing.assert_close(pair_angle(mlp, x2, x1), angles, rtol=1e-11, atol=0)
    torch.testing.assert_close(pair_angle(mlp, c * x1, x2), angles, rtol=1e-11, atol=0)
    assert pair_angle(mlp, x1, x1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("tile", [None, 1, 5, 12, 100])
def test_smallest_of_all_pairs_is_found(activation, tile):
    mlp, x = network(depth=2, activation=activation), inputs(12)
    pairs = list(itertools.combinations(range(12), 2))
    expected = dict(zip(pairs, exact_angles(mlp, x, pairs), strict=True))
    found = min_angle(mlp, x, tile=tile)
    assert (found.i, found.j) == min(expected, key=expected.__getitem__)
    assert found.angle == pytest.approx(min(expected.values()), rel=1e-12)
    assert (found.duplicates, found.candidates) == (0, 1)
    assert found.degrees == pytest.approx(math.degrees(found.angle))


@pytest.mark.parametrize("tile", [1, 7, None])
def test_pairs_too_close_for_cosines_are_told_apart(tile):
    """Cosines of angles of 1e-8 round to 1; the closest pair is neither first nor last."""
    mlp, x = network(depth=3), inputs(20)
    x[[4, 9, 15]] = turned(x[[3, 8, 14]], torch.tensor([[2e-8], [1e-9], [1e-7]]).double())
    found = min_angle(mlp, x, tile=tile)
    assert (found.i, found.j) == (8, 9)
    assert found.angle == pytest.approx(*exact_angles(mlp, x, [(8, 9)]), abs=0, rel=1e-6)
    assert found.candidates == 3


def test_candidates_beyond_the_bound_are_computed_on_the_way(monkeypatch):
    mlp, x = network(depth=1), turned(inputs(1).repeat(30, 1), 1e-8)
    expected = min_angle(mlp, x, tile=4)
    asked = []

    def counting(mlp, x1, x2):
        asked.append(len(x1))
        return pair_angle(mlp, x1, x2)

    monkeypatch.setattr(smallest_angle, "pair_angle", counting)
    monkeypatch.setattr(smallest_angle, "MOST_WAITING", 10)
    monkeypatch.setattr(smallest_angle, "GATHERED_AT_ONCE", 6)
    assert min_angle(mlp, x, tile=4) == expected
    assert expected.candidates == sum(asked) == 30 * 29 // 2
    assert max(asked) <= 6


def test_equal_rows_are_counted_and_left_out_on_request():
    mlp, x = network(depth=2), inputs(9)
    x[5], x[7], x[8] = x[2], x[2], x[4]
    found = min_angle(mlp, x)
    assert (found.angle, found.i, found.j, found.duplicates) == (0.0, 2, 5, 4)
    distinct = min_angle(mlp, x, exclude_duplicates=True)
    alone = min_angle(mlp, x[[0, 1, 2, 3, 4, 6]])
    original = [0, 1, 2, 3, 4, 6]
    assert (distinct.i, distinct.j) == (original[alone.i], original[alone.j])
    assert distinct.angle == pytest.approx(alone.angle, abs=0, rel=1e-12)
    assert distinct.duplicates == 4


def test_float32_networks_are_measured_in_float64():
    mlp, x = network().to(torch.float32), inputs(8).to(torch.float32)
    assert min_angle(mlp, x) == min_angle(mlp.to(torch.float64), x.double())
    assert pair_angle(mlp, x[:2], x[2:4]).dtype == torch.float64


@pytest.mark.parametrize("duplicated", [False, True])
@pytest.mark.parametrize("size", [1.0, 10.0])
def test_zero_gradients_are_refused(duplicated, size):
    """The negative weight on the first input turns the single unit off where that is positive."""
    weights = (torch.tensor([[-1.0, 0.0]]).double(), torch.ones(1, 1).double())
    mlp = MLP(weights, activations.get("relu"))
    off, on = [[size, 0.5]], [[-1.0, 2.0]]
    x = torch.tensor(on + off + (off if duplicated else [])).double()
    with pytest.raises(ZeroGradientError, match="first is row 1"):
        min_angle(mlp, x)
    for pair in (x[:2], x[:2].flip(0)):
        with pytest.raises(ZeroGradientError):
            pair_angle(mlp, pair[:1], pair[1:])


def test_gradients_that_are_not_finite_are_refused():
    x = inputs(3)
    x[2, 0] = math.inf
    with pytest.raises(empirical.NonFiniteGradientError, match="first is row 2"):
        min_angle(network(), x)


def test_one_distinct_sample_has_no_angle():
    x = inputs(1).repeat(3, 1)
    with pytest.raises(empirical.TooFewSamplesError):
        min_angle(network(), x, exclude_duplicates=True)
    with pytest.raises(empirical.TooFewSamplesError):
        min_angle(network(), x[:1])


def test_rows_that_cannot_be_paired_are_refused():
    with pytest.raises(ShapeError, match="paired"):
        pair_angle(network(), inputs(2), inputs(3))

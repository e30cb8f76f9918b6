"""Angles between gradients are right to the last meaningful digit, and the smallest is found."""

import itertools
import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles.directions import angles_between
from ntk_conditioning.angles.gradient_angle import ZeroGradientError, pair_angle
from ntk_conditioning.angles.smallest_angle import (
    NonFiniteGradientError,
    UnresolvedGradientError,
    min_angle,
)
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.infinite import SamplesError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, ShapeError
from ntk_conditioning.seeds import generator
from tests.ntk_conditioning.gradients import inputs, network
from tests.ntk_conditioning.references import exact_gradients


@mpmath.workdps(60)
def exact_angles(mlp, x, pairs):
    """Return the angles between the gradients at pairs of rows of ``x``, right to 60 digits."""
    units = [gradient / mpmath.norm(gradient) for gradient in exact_gradients(mlp, x)]
    sides = [(mpmath.norm(units[i] - units[j]), mpmath.norm(units[i] + units[j])) for i, j in pairs]
    return [float(2 * mpmath.atan2(*both)) for both in sides]


@pytest.mark.parametrize("delta", [1.0, 1e-8, 1e-15])
@pytest.mark.parametrize("ratio", [1.0, -1.7, 1e-150])
def test_angles_between_rows_are_those_of_60_digits(ratio, delta):
    x = np.random.default_rng(0).standard_normal((3, 6))
    x[1] = ratio * (x[0] + delta * x[2])
    (expected,) = exact_angles(network(6, depth=0), x, [(0, 1)])  # gradients are the rows
    assert float(angles_between(x[:1], x[1:2])[0]) == pytest.approx(expected, rel=4e-15)


def assert_exact(mlp, x1, x2, *, rel):
    k = len(x1)
    expected = exact_angles(mlp, torch.cat([x1, x2]), [(i, k + i) for i in range(k)])
    assert pair_angle(mlp, x1, x2).tolist() == pytest.approx(expected, abs=0, rel=rel)
    return expected


def turned(x, angle):
    return x + angle * inputs(*x.shape, seed=2)


LAYERS = [("relu", 0), *itertools.product(["relu", "tanh", "normrelu"], [1, 4])]
DISTANCES = [*itertools.product(LAYERS, [1.0], [1e-9, 1e-4, 1.0])]
DISTANCES += itertools.product([("relu", 0), ("relu", 3)], [1.1, 1e3, 1e-3], [1e-9, 1e-14])


@pytest.mark.parametrize(("layers", "stretch", "angle"), DISTANCES)
def test_pairs_at_any_distance_and_ratio_of_norms(layers, stretch, angle):
    mlp, x1 = network(activation=layers[0], depth=layers[1]), inputs(3)
    # The midpoint rule hands over to the plain difference at 1e-11; both are exact for ReLU.
    rel = 1e-13 if mlp.activation.homogeneous else 1e-10
    assert angle / 10 < min(assert_exact(mlp, x1, stretch * turned(x1, angle), rel=rel))


def test_obtuse_and_opposite_pairs_and_rows_of_other_norms_in_either_order():
    """Near 0 tanh is linear: moving along the ray scales the gradient and hardly turns it."""
    x1, x = inputs(4), inputs(3)
    x2 = torch.cat([inputs(2, seed=5), -x1[2:3], -2 * turned(x1[3:], 0.1)])
    for activation in ("relu", "tanh"):
        assert_exact(network(activation=activation), x1, x2, rel=1e-13)
    mlp = network(activation="tanh")
    expected = assert_exact(mlp, 1e-4 * x, 1e-4 * x * (1 + 1e-6), rel=1e-2)
    assert max(expected) < 1e-12
    near = 1e-4 * turned(x, 1e-6)
    for x1, x2, rel in ((1e6 * x, 1e-9 * inputs(3, seed=2), 1e-9), (x, near, 1e-7)):
        assert_exact(mlp, x2, x1, rel=rel)
        assert_exact(mlp, x1, x2, rel=rel)


@pytest.mark.parametrize("activation", ["relu", "normrelu"])
def test_pairs_on_two_sides_of_a_kink(activation):
    """One unit of the first layer is switched on by a turn of 1e-9: the angle is far larger."""
    mlp, x1 = network(depth=3, activation=activation), inputs(1)
    normal, (kink,) = mlp.weights[0][0], mlp.activation.kinks
    x1 += ((kink - x1 @ normal) / normal.square().sum() - 1e-9)[:, None] * normal
    assert assert_exact(mlp, x1, x1 + 3e-9 * normal, rel=1e-12)[0] > 1e-3


def test_none_is_lost_of_many_candidates_that_no_cosine_separates():
    x = turned(inputs(1).repeat(120, 1), 1e-8)
    x[-1:] = turned(x[-2:-1], 1e-10)
    found = min_angle(network(depth=1), x)
    assert (found.i, found.j, found.candidates) == (118, 119, 120 * 119 // 2)


INFINITE = partial(infinite.min_angle, depth=2, activation="relu")


@pytest.mark.parametrize("find", [partial(min_angle, network()), INFINITE])
def test_equal_rows_are_counted_and_left_out_on_request(find):
    x, distinct = inputs(9), [0, 1, 2, 3, 4, 6]
    x[5], x[7], x[8] = x[2], x[2], x[4]
    found = find(x)
    assert (found.angle, found.i, found.j, found.duplicates) == (0.0, 2, 5, 4)
    found, alone = find(x, exclude_duplicates=True), find(x[distinct])
    assert (found.i, found.j, found.duplicates) == (distinct[alone.i], distinct[alone.j], 4)
    assert found.angle == pytest.approx(alone.angle, abs=0, rel=1e-12)


def test_float32_networks_are_measured_in_float64():
    mlp, x = network().to(torch.float32), inputs(8).to(torch.float32)
    assert min_angle(mlp, x) == min_angle(mlp.to(torch.float64), x.double())
    assert pair_angle(mlp, x[:2], x[2:4]).dtype == torch.float64


DATA = {
    "random": lambda x, other: x,
    "low contrast": lambda x, other: 1 + 1e-3 * x,
    "clusters 1e-9": lambda x, other: x[torch.arange(len(x)) % 5] + 1e-9 * other,
    "mixed norms": lambda x, other: x * torch.logspace(-6, 6, len(x)).double().unsqueeze(1),
    "one": lambda x, other: x[:1] + 1e-9 * other,
    "two": lambda x, other: x[torch.arange(len(x)) % 2] + 1e-9 * other,
    "sizes 1e-9, 1e-13": lambda x, other: x[:1] + 1e-9 * torch.cat([other[:5], 1e-4 * other[5:]]),
    "norms": lambda x, other: (x[:1] + 1e-9 * other) * torch.logspace(-1, 1, len(x)).unsqueeze(1),
    "scale 1e-30": lambda x, other: 1e-30 * x,
    "scale 1e30": lambda x, other: 1e30 * x,
    "scale 1e4": lambda x, other: 1e4 * x,
}


@given(
    n=st.integers(2, 40),
    tile=st.integers(1, 45),
    memory=st.integers(1, 60_000),
    depth=st.integers(0, 5),
    activation=st.sampled_from(["relu", "tanh", "linear", "erf"]),
    kind=st.sampled_from([*DATA][:4]),
    seed=st.integers(0, 99),
)
def test_search_finds_it_with_any_tile_and_memory(n, tile, memory, depth, activation, kind, seed):
    mlp = network(depth=depth, activation=activation, seed=seed)
    x = DATA[kind](inputs(n, seed=seed), inputs(n, seed=seed + 1))
    x, pairs = x[generator(seed, "batch").permutation(n)], torch.combinations(torch.arange(n))
    angles = pair_angle(mlp, *x[pairs.T])
    # One product of another shape may round the difference of two rows in another way.
    rel = 1e-13 if kind == "random" else 1e-8
    found, usual = min_angle(mlp, x, tile=tile, memory=memory), min_angle(mlp, x)
    assert found.angle == pytest.approx(angles.min().item(), abs=0, rel=rel)
    assert [found.i, found.j] in pairs[angles <= angles.min() * (1 + rel)].tolist()
    assert found.angle == pytest.approx(usual.angle, abs=0, rel=rel)
    assert found.candidates == usual.candidates


@pytest.mark.parametrize("options", [{}, {"tile": 2}, {"tile": 3, "memory": 1}])
def test_of_equal_angles_the_lowest_pair_is_named(options):
    mlp, x = network(d=9, depth=0), torch.eye(9, dtype=torch.float64)
    found = min_angle(mlp, x, **options)
    assert (found.i, found.j, found.candidates) == (0, 1, 36)
    assert found.angle == pytest.approx(math.pi / 2, abs=0, rel=1e-15)
    x[7], x[4] = x[2] + x[3], x[2] + x[8]  # at 45 degrees: 2 and 7, 3 and 7, 2 and 4
    found = min_angle(mlp, x, **options)
    assert (found.i, found.j) == (2, 4)
    assert found.angle == pytest.approx(math.pi / 4, abs=0, rel=1e-15)


@pytest.mark.parametrize("options", [{}, {"memory": 1}])
def test_rows_without_a_direction_are_refused(options):
    """A network of one unit is off where the first input is positive."""
    weights = torch.tensor([[-1.0, 0.0]]).double(), torch.ones(1, 1).double()
    single, x = MLP(weights, activations.get("relu")), inputs(40, 2)
    x[:, 0] = -x[:, 0].abs()
    x[[11, 12, 25, 39], 0] *= -1
    with pytest.raises(ZeroGradientError, match="at 4 distinct samples, the first is row 11"):
        min_angle(single, x, tile=5, **options)
    for i, j in ((10, 11), (11, 10)):
        with pytest.raises(ZeroGradientError):
            pair_angle(single, x[[i]], x[[j]])
    x = inputs(40)
    x[8, 1], x[9, 1], x[33, 0] = math.nan, -math.inf, math.inf
    x[2] = x[1]  # rows are called by their numbers before duplicates were left out
    with pytest.raises(NonFiniteGradientError, match=r"at 3 .* first is row 8"):
        min_angle(network(), x, tile=5, **options)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_one_distinct_sample_has_no_angle_and_other_rows_cannot_be_paired(n):
    with pytest.raises(ShapeError, match=f"{n} rows cannot be paired with 2"):
        pair_angle(network(), inputs(n), inputs(2))
    x = inputs(1).repeat(n, 1)
    with pytest.raises(UserError, match="distinct samples have no smallest angle; give two"):
        min_angle(network(), x, exclude_duplicates=True)
    with pytest.raises(SamplesError, match="1 different samples have no pair" if n else "shape"):
        INFINITE(x, exclude_duplicates=True)


@pytest.mark.parametrize("sign", [1, -1])
def test_parallel_samples_by_the_thousand_are_no_duplicates_and_not_all_compared(sign):
    """The first pair at an angle of 0 excludes all after it, in crowds that no cosine separates."""
    x = torch.tensor([3.0, -1, 2, 5, -7, 1]) * torch.arange(1, 1501).double()[:, None]  # exactly
    x[750:] *= sign
    finite = min_angle(network(6, depth=2, width=8), x)
    for found in (finite, INFINITE(x)):
        assert (found.angle, found.i, found.duplicates) == (0, 0, 0)
        assert found.candidates < 0.6 * len(x) ** 2 / 2
    assert finite.candidates < 10 * len(x)
    assert INFINITE(x[:5], activation="erf").angle > 0  # not homogeneous
    x[1] = x[0]
    found = INFINITE(x[:5], exclude_duplicates=True)
    assert (found.angle, found.i, found.j, found.duplicates) == (0, 0, 2, 1)


CASES = [*itertools.product([("relu", 0), ("relu", 3), ("tanh", 2)], [*DATA][4:8])]
CASES += itertools.product([("relu", 2), ("gelu", 2)], ["scale 1e-30", "scale 1e30"])
CASES += itertools.product([("tanh", 2)], ["random", "scale 1e4"])


@pytest.mark.parametrize(("layers", "kind"), CASES)
def test_the_smallest_of_all_pairs_is_that_of_60_digits(layers, kind):
    mlp = network(activation=layers[0], depth=layers[1])
    x = DATA[kind](inputs(10), inputs(10, seed=2))
    pairs = list(itertools.combinations(range(10), 2))
    expected = dict(zip(pairs, exact_angles(mlp, x, pairs), strict=True))
    found = min_angle(mlp, x, tile=5)
    assert (found.i, found.j) == min(expected, key=expected.__getitem__)
    rel = 1e-12 if kind.startswith(("scale", "random")) else 1e-9
    assert found.angle == pytest.approx(min(expected.values()), abs=0, rel=rel)
    assert (found.duplicates, found.error) == (0, None)


def test_gradients_without_digits_are_refused():
    """Their squares lose them, or each layer of an erf network stretches what rounding makes."""
    mlp, x = network(), 1e-160 * inputs(5)
    with pytest.raises(NonFiniteGradientError, match="too small to square at 5"):
        min_angle(mlp, x)
    for rows in (x[:4], 1e160 * inputs(4)):
        with pytest.raises(NonFiniteGradientError, match="too small or too large to square"):
            pair_angle(mlp, *rows.split(2))
    with pytest.raises(ZeroGradientError, match="zero, or its square underflows"):
        min_angle(mlp, 1e-200 * inputs(2))
    with pytest.raises(UserError, match="tile=0"):
        min_angle(mlp, inputs(4), tile=0)
    mlp = network(5, depth=400, width=64, activation="erf", seed=3)
    with pytest.raises(UnresolvedGradientError, match="grows over 400 layers; give fewer"):
        min_angle(mlp, inputs(30, 5))


@pytest.mark.parametrize("flags", [{}, {"homogeneous": True}, {"kinks": [0.0]}], ids=str)
def test_a_kink_at_0_need_not_be_declared(flags):
    functions = lambda z: z.clamp(min=0), lambda z: (z > 0).to(z.dtype)
    own = activations.Activation("own", *functions, **flags)
    weights, (x1, x2) = network(depth=2, activation="relu").weights, inputs(2)[:, None]
    relu = MLP(weights, activations.get("relu"))
    expected = pair_angle(relu, x1, x2).item()
    assert pair_angle(MLP(weights, own), x1, x2).item() == pytest.approx(expected, rel=1e-12)

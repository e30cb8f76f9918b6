"""References against closed forms and slow obvious ways; recipes fail where they must."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch

from ntk_conditioning.kernels import empirical, infinite
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra import precision
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.spectra.precision import Problem, ProblemError

SIZES = {"samples": 5, "dim": 8, "width": 12}


def network(activation: str, depth: int, *, d: int = 4, width: int = 6) -> MLP:
    return init_mlp(
        d, depth=depth, width=width, activation=activation, generator=generator(3, "init")
    )


def pair(delta: float, d: int = 4) -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, d))
    x[1] = x[0] + delta * x[1]
    return x


def one(activation: str, depth: int, x: np.ndarray, *, finite: bool = True) -> Problem:
    return Problem(activation, depth, 0, 0.0, x, network(activation, depth) if finite else None)


def kappa_2x2(a, b, c):
    """κ of [[a, b], [b, c]] by trace and determinant."""
    trace, determinant = a + c, a * c - b * b
    largest = (trace + mpmath.sqrt(trace**2 - 4 * determinant)) / 2
    return largest**2 / determinant


def gradient(mlp: MLP, row: np.ndarray) -> list:
    """Return the gradient in all weights, written out in mpmath, with the scales left out."""
    weights = [mpmath.matrix(w.tolist()) for w in mlp.weights]
    alphas, signs = [mpmath.matrix(row.tolist())], []
    for weight in weights[:-1]:
        z = weight * alphas[-1]
        signs.append([1 if v > 0 or mlp.activation.name == "linear" else 0 for v in z])
        alphas.append(mpmath.matrix([v * s for v, s in zip(z, signs[-1], strict=True)]))
    delta, entries = mpmath.matrix([1]), []
    for layer in range(mlp.depth, -1, -1):
        entries += [p * q for p, q in itertools.product(delta, alphas[layer])]
        if layer:
            back = weights[layer].T * delta
            delta = mpmath.matrix([s * v for s, v in zip(signs[layer - 1], back, strict=True)])
    return entries


# --- references -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.3, 1e-4, 1e-9])
@pytest.mark.parametrize(("activation", "depth"), [("linear", 0), ("linear", 2), ("relu", 2)])
def test_the_reference_of_a_finite_network_is_that_of_its_gradients(activation, depth, delta):
    x = pair(delta)
    with mpmath.workdps(60):
        u, v = (gradient(network(activation, depth), row) for row in x)
        expected = kappa_2x2(mpmath.fdot(u, u), mpmath.fdot(u, v), mpmath.fdot(v, v))
        found = precision.reference(one(activation, depth, x))
        assert abs(found / expected - 1) < mpmath.mpf(10) ** -35


@pytest.mark.parametrize("delta", [0.3, 1e-7, 1e-15])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_reference_at_infinite_width_is_that_of_its_angle(depth, delta):
    """By sums of angles and their products, liu2023relu, Eq. (10), and the 2 × 2 closed form."""
    x = pair(delta)
    with mpmath.workdps(100):
        u, v = (mpmath.matrix(row.tolist()) for row in x)
        uu, uv, vv = ((p.T * q)[0] for p, q in ((u, u), (u, v), (v, v)))
        angles = [mpmath.acos(uv / mpmath.sqrt(uu * vv))]
        for _ in range(depth):
            z = angles[-1]
            cosine = ((mpmath.pi - z) * mpmath.cos(z) + mpmath.sin(z)) / mpmath.pi
            angles.append(mpmath.acos(cosine))
        kept = [mpmath.fprod(1 - z / mpmath.pi for z in angles[k:depth]) for k in range(depth + 1)]
        terms = [mpmath.cos(z) * factor for z, factor in zip(angles, kept, strict=True)]
        cosine = mpmath.fsum(terms) / (depth + 1)
        expected = kappa_2x2(uu, cosine * mpmath.sqrt(uu * vv), vv)
        found = precision.reference(one("relu", depth, x, finite=False))
        assert abs(found / expected - 1) < mpmath.mpf(10) ** -20


@pytest.mark.parametrize(("activation", "depth"), [("linear", 0), ("linear", 3), ("relu", 3)])
def test_the_exact_kernel_is_a_multiple_of_the_packages(activation, depth):
    x = np.random.default_rng(0).standard_normal((6, 4))
    mlp = network(activation, depth)
    exact = precision.exact_kernel(mlp, x)
    found = empirical.ntk(mlp, torch.from_numpy(x)).numpy()
    ratios = np.array([[int(e) / int(exact[0, 0]) for e in row] for row in exact])
    np.testing.assert_allclose(found / found[0, 0], ratios, rtol=1e-12, atol=1e-13)


def test_the_cosine_formula_is_the_packages_kernel_for_samples_far_apart():
    x = np.random.default_rng(0).standard_normal((6, 4))
    expected = infinite.ntk(x, depth=3, activation="relu")
    # the diagonal's arccosines of rounded ones lose half of the digits
    np.testing.assert_allclose(precision.cosine_formula(x, 3), expected, rtol=1e-7)
    single = precision.cosine_formula(x.astype(np.float32), 3)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=3e-3)


def test_problems_that_have_no_kappa_are_refused():
    with pytest.raises(ProblemError, match="5 samples in 4 dimensions"):
        next(precision.problems(samples=5, dim=4, width=3, depths=[0], seeds=[1], points=2))
    with pytest.raises(ProblemError, match="singular"):
        precision.reference(one("linear", 0, pair(0.0)))
    with pytest.raises(ProblemError, match="tanh networks have no exact kernel"):
        precision.exact_kernel(network("tanh", 1), pair(0.1))


# --- recipes --------------------------------------------------------------------------------------


def study(**choices) -> itertools.chain:
    chosen = {"depths": [0, 1], "seeds": [1], "points": 7, **SIZES, **choices}
    return precision.problems(**chosen)


def test_problems_are_the_same_whatever_else_is_asked_for():
    def by_key(problems):
        return {(p.kernel, p.activation, p.depth, p.seed, p.delta): p.x for p in problems}

    few, many = by_key(study(depths=[1])), by_key(study(depths=[0, 1, 2], seeds=[1, 7]))
    assert len(few) == 3 * 7
    assert len(many) == 2 * (1 + 3 + 3) * 7
    assert all((x == many[key]).all() for key, x in few.items())


def test_only_the_pair_moves_and_always_in_one_direction():
    steps = {}
    for p in study(seeds=[1, 7]):
        others, step = np.delete(p.x, 1, axis=0), (p.x[1] - p.x[0]) / p.delta
        first_others, first_step = steps.setdefault(p.seed, (others, step))
        assert (others == first_others).all()
        np.testing.assert_allclose(step, first_step, atol=1e-15 / p.delta)
    assert (steps[1][0] != steps[7][0]).all()


@pytest.fixture(scope="module")
def measured() -> list[tuple[Problem, precision.Measurement]]:
    problems = study(depths=[0, 2], seeds=[1, 2], points=17)
    return [(p, m) for p in problems for m in precision.measure(p)]


METHODS = (*precision.RECIPES, *precision.LINEAR_RECIPES, *precision.INFINITE_RECIPES)


@pytest.mark.parametrize("method", METHODS)
def test_every_recipe_is_right_where_kappa_is_small(measured, method):
    """An error of a few ε κ; of sqrt(ε) κ from arccosines, which are off by sqrt(ε) near 0."""
    eps = np.finfo(np.float32 if "float32" in method else np.float64).eps
    small = [m for _, m in measured if m.method == method and m.kappa_reference < 1e3]
    assert small
    entry_error = math.sqrt(eps) if "cosine" in method else 10 * eps
    assert all(m.error < entry_error * m.kappa_reference for m in small)
    assert all(m.estimate.resolved for m in small)


@pytest.mark.parametrize("method", ["float32", "float64", "extremes", "factor", "deficits"])
def test_a_guarded_recipe_reports_no_wrong_kappa(measured, method):
    mine = [m for _, m in measured if m.method == method]
    reported = [m for m in mine if m.estimate.resolved]
    assert all(0 < m.estimate.ratio < m.estimate.floor_kappa for m in reported)
    assert all(m.error < 0.3 for m in reported)  # ε κ is 1/n at the floor
    if method == "factor":
        assert len(reported) == len(mine)
        assert max(m.kappa_reference for m in reported) > 1e17
        eps = np.finfo(float).eps
        # singular values are off by a few eps of the largest (Golub & Van Loan, section 8.6)
        assert all(m.error < 100 * eps * math.sqrt(m.kappa_reference) for m in reported)
    else:
        assert any(not m.estimate.resolved for m in mine)


@pytest.mark.parametrize("method", ["float32_general", "float32_symmetric", "cosine"])
def test_an_unguarded_recipe_reports_negative_and_wrong_kappas(measured, method):
    mine = [m for _, m in measured if m.method == method]
    assert all(m.estimate.resolved for m in mine)
    assert any(m.estimate.ratio < 0 for m in mine)
    lost = [m for m in mine if m.kappa_reference > 1e10]
    assert np.median([m.error for m in lost]) > 0.5
    assert any(m.estimate.ratio > 0 for m in lost)  # which looks like a result


def test_what_float32_loses_it_loses_in_arithmetic_and_not_by_rounding_the_data(measured):
    """Rounded samples and weights, then float64, are off by ε sqrt(κ) and not by ε κ."""
    compared = 0
    for problem, found in measured:
        if found.method != "float32_symmetric" or not 1e4 < found.kappa_reference < 1e9:
            continue
        rounded = torch.from_numpy(problem.x.astype(np.float32).astype(np.float64))
        mlp = problem.mlp.to(torch.float32).to(torch.float64)
        kappa = conditioning(empirical.ntk(mlp, rounded).numpy()).kappa
        eps = np.finfo(np.float32).eps
        error = abs(kappa / found.kappa_reference - 1)
        assert error < 20 * eps * math.sqrt(found.kappa_reference)
        compared += 1
    assert compared > 5


def test_an_exactly_singular_float_kernel_has_an_infinite_ratio():
    found = precision._unguarded(np.array([0.0, 1.0]), np.float32)
    assert found.ratio == math.inf

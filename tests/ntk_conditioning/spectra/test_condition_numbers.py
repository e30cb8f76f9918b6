"""Condition numbers are right where float arithmetic resolves them and missing where not."""

import math
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator
from scipy.spatial.distance import pdist, squareform

from ntk_conditioning import condition
from ntk_conditioning.spectra import precision
from ntk_conditioning.spectra.condition_numbers import (
    EPS,
    KernelError,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.labels import effective_kappa, kernel_target_alignment, label_spectrum
from ntk_conditioning.spectra.precision import Problem
from ntk_conditioning.spectra.spikes import spike_and_bulk
from ntk_conditioning.theory.sphere import unit_rows as unit
from tests.ntk_conditioning.gradients import OnDevice, network
from tests.ntk_conditioning.references import exact_extremes, exact_gradients, kernel, theorem_4_4


def of_factor(k, **_):
    return conditioning_from_factor(np.sqrt(k))


FINDERS = conditioning, extreme_conditioning
FLOORS = [(find, error, 20 * max(error, EPS)) for find in FINDERS for error in (0, 1e-9)]
FLOORS += [(of_factor, 0, (20 * EPS) ** 2)]


@pytest.mark.parametrize(("find", "entry_error", "ratio"), FLOORS)
def test_kappa_is_withheld_where_its_error_may_exceed_1(find, entry_error, ratio):
    """Also above the floor, which is at ``ratio``: the rank is full then."""
    for times in (1.2, 40):
        smallest = times * ratio
        found = find(np.diag([1.0] * 19 + [smallest]), entry_error=entry_error)
        assert found.numerical_rank == 20
        assert found.lambda_min == pytest.approx(smallest, rel=1e-9)
        assert found.kappa_nonzero == pytest.approx(1 / smallest, rel=1e-9)
        assert found.kappa == (None if times == 1.2 else found.kappa_nonzero)
        assert found.kappa_error is None if times == 1.2 else found.kappa_error < 1


def test_a_deficient_kernel_has_no_kappa_and_an_effective_rank():
    found = conditioning(np.diag([3.0] * 5 + [1e-16] * 4))
    assert (found.kappa, found.numerical_rank, found.effective_rank) == (None, 5, pytest.approx(5))
    assert found.lambda_min == pytest.approx(1e-16, abs=0, rel=1e-9)
    entropy = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert conditioning(np.diag([3.0, 1.0])).effective_rank == pytest.approx(math.exp(entropy))


def test_float32_is_flagged_and_resolves_less():
    k = kernel(np.geomspace(1, 1e7, 20))
    single = conditioning(k.astype(np.float32))
    assert (single.dtype, single.reduced_precision, single.kappa) == ("float32", True, None)
    floor = 20 * np.finfo(np.float32).eps * 1e7
    assert single.resolution_floor == pytest.approx(floor, abs=0, rel=1e-5)
    assert conditioning(k).kappa is not None
    factor = conditioning_from_factor(np.diag([1.0, 1e-8]).astype(np.float32))
    assert (factor.dtype, factor.reduced_precision, factor.kappa) == ("float32", True, None)
    with pytest.raises(KernelError, match="the kernel is zero"):
        conditioning_from_factor(np.zeros((2, 3)))


@pytest.mark.parametrize("p", [4, 20, 31])
def test_factor_agrees_with_its_kernel_and_a_narrow_one_has_zeros_by_structure(p):
    f = np.random.default_rng(2).standard_normal((20, p))
    found, by_kernel = conditioning_from_factor(f), conditioning(f @ f.T)
    assert (found.n, found.numerical_rank) == (20, min(p, 20))
    floor = (max(20, p) * EPS) ** 2 * found.lambda_max
    assert found.resolution_floor == pytest.approx(floor, abs=0, rel=1e-9)
    error = 2 * max(20, p) * EPS * found.lambda_max  # n or p roundings of a σ, twice of σ²
    assert found.lambda_max_error == pytest.approx(error, abs=0, rel=1e-9)
    ratio = np.linalg.cond(f) ** 2
    assert found.kappa_nonzero == pytest.approx(ratio, abs=0, rel=1e-12)
    atol = 20 * EPS * by_kernel.lambda_max if p < 20 else 0
    np.testing.assert_allclose(found.eigenvalues, by_kernel.eigenvalues, rtol=1e-8, atol=atol)
    if p < 20:
        assert (found.lambda_min, found.lambda_min_error, found.kappa) == (0.0, 0.0, None)
    else:
        assert found.kappa == pytest.approx(by_kernel.kappa, abs=0, rel=100 * EPS * by_kernel.kappa)


ASYMMETRIC, LARGE = np.eye(3) + 1e-6 * np.triu(np.ones((3, 3)), 1), np.eye(1500)
LARGE[1400, 10] = 1e-6
REFUSED = {
    "a kernel is square": [np.ones((2, 3))],
    "is not a matrix": [np.ones(4), np.ones((0, 0)), 1.0],
    "give float64": [np.eye(3, dtype=int)],
    "1 of the matrix's 4 entries are not finite": [*map(np.diag, ([1, np.nan], [1, -np.inf]))],
    r"triangles differ by 1\.0e-06": [ASYMMETRIC, LARGE],
    "a kernel has none below": [np.diag([1.0, -0.1]), -np.eye(2), np.ones((4, 4)) - np.eye(4)],
    "the kernel is zero": [np.zeros((3, 3)), np.zeros((30, 30), dtype=np.float32)],
    "the kernel is no matrix: .*inhomogeneous": [[[1.0], [1.0, 2.0]]],
    "products alone have no trace": [aslinearoperator(np.eye(3))],
    "scale the data": [np.ldexp(np.eye(30) + 1, 1020)],
    "no matrix: .*BFloat16": [torch.eye(3, dtype=torch.bfloat16)],
    "no matrix: .*Sparse": [torch.eye(3).to_sparse()],
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_is_no_kernel_is_refused_in_one_line(problem):
    for k in REFUSED[problem]:
        calls = [(condition, k)]
        if isinstance(k, np.ndarray):
            tensor = torch.from_numpy(k)
            calls += [(condition, tensor), (extreme_conditioning, k)]
            calls += [(extreme_conditioning, tensor.as_subclass(OnDevice))]
        for find, given in calls:
            with pytest.raises(KernelError, match=problem) as caught:
                find(given)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("find", FINDERS)
def test_triangles_that_differ_count_as_errors_of_the_entries(find):
    k = np.array([[1.0, 1 - 1e-13], [1 - 2e-13, 1.0]])
    assert find(k).kappa is find(k.T.copy()).kappa is None  # 1e13 or 2e13, by the triangle read
    k = np.array([[1.0, 1 - 1e-11], [1 - 1.02e-11, 1.0]])
    one, two = find(k), find(k.T.copy())
    assert 0.01 < abs(one.kappa / two.kappa - 1) < one.kappa_error
    assert find(ASYMMETRIC.astype(np.float32)).numerical_rank == 3


@pytest.mark.parametrize("find", [*FINDERS, of_factor])
@pytest.mark.parametrize("exponent", [-400, 440])
def test_a_kernel_times_a_power_of_two_has_the_same_kappa_and_ranks(exponent, find):
    k = np.diag(np.geomspace(1, 1e6, 30)) if find is of_factor else kernel(np.geomspace(1, 1e6, 30))
    plain, scaled = find(k), find(np.ldexp(k, exponent - 20))
    assert scaled.kappa_error == pytest.approx(plain.kappa_error, rel=0.1)
    assert scaled.numerical_rank == plain.numerical_rank == 30
    for name in ("kappa", "effective_rank", "lambda_max", "lambda_min", "resolution_floor"):
        one, two = getattr(plain, name) or 0, getattr(scaled, name) or 0
        shift = 0 if name in ("kappa", "effective_rank") else 20 - exponent
        assert np.ldexp(two, shift) == pytest.approx(one, rel=1e-9)
    assert scaled.eigenvalues is None or scaled.eigenvalues[0] == scaled.lambda_max


@pytest.mark.filterwarnings("ignore:overflow")
def test_squares_out_of_float64s_range_are_refused_and_those_of_float32_are_not():
    for find in (conditioning_from_factor, extreme_conditioning):
        for scale in (1e200, 1e-200):
            with pytest.raises(KernelError, match="scale the data"):
                find(scale * np.eye(3))
    for scale in (1e25, 1e-25):
        single = (scale * np.diag([1.0, 2.0, 3.0])).astype(np.float32)
        assert extreme_conditioning(single).kappa == pytest.approx(3, rel=1e-6)


def test_errors_of_the_smallest_kernels_contain_what_the_solver_is_off_by():
    rng = np.random.default_rng(2)
    for _ in range(60):  # in some of them LAPACK exceeds n · eps, as it was seen
        factor = rng.standard_normal((3, 3))
        k = np.tril(factor @ factor.T)
        found = conditioning(k := k + np.tril(k, -1).T)
        smallest, largest = exact_extremes(k)
        off = max(abs(largest - found.lambda_max), abs(smallest - found.lambda_min))
        assert off <= found.lambda_max_error == found.lambda_min_error
        assert found.lambda_max_error == pytest.approx(8 * EPS * found.lambda_max, abs=0, rel=1e-9)


def test_a_tensor_gives_the_numbers_of_its_spectrum_and_what_is_not_resolved_is_said():
    k = np.diag([5.0, 2.0, 1.0])
    assert condition(torch.from_numpy(k).requires_grad_()) == conditioning(k)
    words = repr(condition(np.diag([4.0, 2.0, 0.0]).astype(np.float32)))
    assert words.startswith("kappa is not resolved, 2 above the floor; rank 2 of 3; ")
    assert words.endswith("(float32)")
    large = torch.diag(torch.linspace(1, 3, 2100, dtype=torch.float64))
    before, numbers = large.clone(), condition(large)
    assert (numbers.method, numbers.kappa) == ("extremes", pytest.approx(3, rel=1e-9))
    assert torch.equal(large, before)


def test_energies_are_those_along_the_singular_vectors_of_a_factor():
    rng = np.random.default_rng(0)
    factor, residual = rng.standard_normal((12, 20)), rng.standard_normal((12, 3))
    eigenvalues, energy = label_spectrum(factor @ factor.T, residual)
    u, s, _ = np.linalg.svd(factor)
    np.testing.assert_allclose(eigenvalues, s**2, rtol=1e-10)
    expected = np.square(u.T @ residual).sum(1) / np.square(residual).sum()
    np.testing.assert_allclose(energy, expected, rtol=1e-9)
    assert energy.sum() == pytest.approx(1, abs=1e-12)


def test_the_effective_condition_number_sees_only_where_labels_are():
    kernel = np.diag([100.0, 10.0, 1e-9])
    assert effective_kappa(*label_spectrum(kernel, np.array([[1.0], [1.0], [0.01]]))) == 10
    assert effective_kappa(*label_spectrum(kernel, np.ones((3, 1)))) > 1e10


def test_alignment_is_one_for_the_targets_themselves_and_zero_across():
    y, across = np.array([[1.0, 1, -1, -1], [1.0, -1, 1, -1]])[..., None]
    rows = np.arange(4.0)  # centring removes it from rows and columns
    assert kernel_target_alignment(y @ y.T + rows + rows[:, None], 3 * y - 1) == pytest.approx(1)
    assert kernel_target_alignment(across @ across.T, y) == pytest.approx(0, abs=1e-15)


def distances(x):
    """Return 1 - x_i · x_j of rows of norm 1, from their differences."""
    return pdist(x, "sqeuclidean") / 2


X = unit(np.random.default_rng(0).standard_normal((20, 30)))
FAR, NEAR = distances(X), distances(unit(0.9 * np.eye(30)[0] + 0.1 * X))


@pytest.mark.parametrize("far", [FAR, NEAR, 1e-12 * FAR[:15]], ids=["far", "near", "1e-12"])
def test_eigenvalues_are_those_of_the_kernel_and_of_the_centred_one(far):
    """Of distances of 1e-12 a kernel's entries keep four digits."""
    found = spike_and_bulk(far)
    with mpmath.workdps(40):
        k = mpmath.ones(found.n) - mpmath.matrix(squareform(far).tolist())
        centring = mpmath.eye(found.n) - mpmath.ones(found.n) / found.n
        low, *_, second, high = map(float, mpmath.eigsy(k, eigvals_only=True))
        bulk = mpmath.eigsy(centring * k * centring, eigvals_only=True)
        _, bulk_low, *_, bulk_high = map(float, bulk)  # 0 along the mean direction
    largest = pytest.approx((high, second), rel=1e-12, abs=found.lambda_max_error)
    assert (found.lambda_max, found.lambda_2) == largest
    smallest = pytest.approx((low, bulk_low, bulk_high), rel=1e-12)
    assert (found.lambda_min, found.bulk_min, found.bulk_max) == smallest
    assert found.lambda_min_error < 1e-2 * low
    ratios = pytest.approx((high / low, bulk_high / bulk_low), rel=1e-12)
    assert (found.kappa, found.bulk_kappa) == ratios


@pytest.mark.parametrize("n", [3, 300, 1000])
@pytest.mark.parametrize("least", [1e-2, 1e-9, 1e-13])
def test_errors_contain_roundings_where_the_mean_of_all_samples_is_almost_zero(n, least):
    """Of a simplex, whose equal distances t have the eigenvalues t and n - (n - 1) t."""
    t = (n - least) / (n - 1)
    found, exact = spike_and_bulk(np.full(n * (n - 1) // 2, t)), Fraction(t)
    smallest = n - (n - 1) * exact
    off = *(found.bulk_min - exact, found.bulk_max - exact), found.lambda_min - smallest
    assert max(map(abs, off)) <= found.lambda_min_error
    assert abs(found.lambda_max - exact) <= found.lambda_max_error


def test_errors_contain_what_those_of_the_entries_do():
    """Errors along the mean direction, and along the first eigenvector of the bulk."""
    signs, error = (-1.0) ** np.arange(20), 1e-4
    normal = np.random.default_rng(3).standard_normal((20, 30))
    x = unit(np.eye(30)[0] + 0.8 * np.outer(signs, np.eye(30)[1]) + 0.1 * normal)
    found = spike_and_bulk(distances(x), error=error)
    for each in (np.ones(20), signs):
        off = spike_and_bulk(distances(x) - error * np.outer(each, each)[np.triu_indices(20, 1)])
        for name in ("lambda_max", "lambda_2"):
            assert abs(getattr(off, name) - getattr(found, name)) <= found.lambda_max_error
        for name in ("lambda_min", "bulk_min", "bulk_max"):
            assert abs(getattr(off, name) - getattr(found, name)) <= found.lambda_min_error


def test_a_condition_number_that_may_be_off_by_more_than_itself_is_withheld():
    """Of two samples λ_min is their distance, known to 2 times the entries' error."""
    close = spike_and_bulk(np.array([1e-3]), error=1e-3 / 3.5)
    assert 0 < close.lambda_min_error < close.lambda_min
    singular = spike_and_bulk(distances(unit(np.random.default_rng(2).standard_normal((12, 5)))))
    assert abs(singular.lambda_min) < singular.lambda_min_error
    for found in (close, singular):
        assert (found.kappa, found.kappa_error, found.bulk_kappa) == (None, None, None)
    known = spike_and_bulk(np.array([1e-3]), error=1e-3 / 4.5)
    assert known.kappa == pytest.approx(1999, rel=1e-9)
    assert known.kappa_error < 1


@pytest.mark.parametrize(("activation", "width"), [("linear", 6), ("relu", 6), ("relu", None)])
@pytest.mark.parametrize("delta", [0.3, 1e-9, 1e-15])
def test_references_are_kappas_of_exact_gradients_and_of_theorem_4_4(activation, width, delta):
    x, mlp = np.random.default_rng(5).standard_normal((2, 4)), None
    x[1] = x[0] + delta * x[1]
    with mpmath.workdps(100):
        if width:
            mlp = network(4, depth=2, width=width, activation=activation, seed=3)
            k = (gradients := exact_gradients(mlp, x)) @ gradients.T
        else:
            k = theorem_4_4(x, 2)
        low, high = mpmath.eigsy(mpmath.matrix(k.tolist()), eigvals_only=True)
        found = precision.reference(Problem(activation, 2, 0, 0.0, x, mlp))
        assert abs(found * low / high - 1) < (1e-25 if width else 1e-20)


def test_problems_that_have_no_kappa_are_refused():
    wide = next(precision.problems(samples=5, dim=4, width=3, depths=[0], seeds=[1], points=2))
    with pytest.raises(KernelError, match="fewer samples than dimensions"):
        precision.reference(wide)
    with pytest.raises(KernelError, match="singular"):
        precision.reference(Problem("linear", 0, 0, 0.0, np.ones((2, 4)), network(4, depth=0)))


@pytest.fixture(scope="module")
def measured():
    by_method, axes = defaultdict(list), {"depths": [0, 2], "seeds": [1, 2], "points": 9}
    for problem in precision.problems(samples=5, dim=8, width=12, **axes):
        for measurement in precision.measure(problem):
            by_method[measurement.method].append(measurement)
    return by_method


def test_every_recipe_is_right_where_kappa_is_small(measured):
    """An error of a few ε κ; of sqrt(ε) κ from arccosines, which are off by sqrt(ε) near 0."""
    assert measured.keys() == {
        *("float32_general", "float32_symmetric", "float32", "float64", "extremes", "factor"),
        *("cosine_float32", "cosine", "deficits"),
    }
    for method, found in measured.items():
        eps = np.finfo(np.float32 if "float32" in method else np.float64).eps
        small = [m for m in found if m.kappa_reference < 1e3]
        assert small
        entry_error = math.sqrt(eps) if "cosine" in method else 10 * eps
        assert all(m.relative_error < entry_error * m.kappa_reference for m in small), method
        assert all(m.resolved for m in small)


def test_guarded_recipes_report_no_wrong_kappa_and_others_do(measured):
    for method in ("float32", "float64", "extremes", "factor", "deficits"):
        reported = [m for m in measured[method] if m.resolved]
        assert all(0 < m.ratio < m.floor_kappa for m in reported)
        assert all(m.relative_error < 0.3 for m in reported)  # ε κ is 1/n at the floor
        assert (reported == measured[method]) == (method == "factor")
        assert all((m.floor_kappa < 1e8) == (method == "float32") for m in measured[method])
    assert max(m.kappa_reference for m in measured["factor"]) > 1e17
    for m in measured["factor"]:
        # singular values are off by a few eps of the largest (Golub & Van Loan, section 8.6)
        assert m.relative_error < 100 * EPS * math.sqrt(m.kappa_reference)
    for method in ("float32_general", "float32_symmetric", "cosine"):
        assert all(m.resolved for m in measured[method])
        assert any(m.ratio < 0 for m in measured[method])
        lost = [m for m in measured[method] if m.kappa_reference > 1e10]
        assert np.median([m.relative_error for m in lost]) > 0.5
        assert any(m.ratio > 0 for m in lost)  # which looks like a result

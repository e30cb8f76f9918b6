"""Extreme eigenvalues agree with whole spectra, within bounds that hold, or are missing."""

from __future__ import annotations

import tracemalloc
from functools import partial

import mpmath
import numpy as np
import pytest
import torch

from ntk_conditioning.angles.pairs import upper_tiles
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.spectra import conditioning as spectra
from ntk_conditioning.spectra import extremal_eigenvalues, factorisations
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import (
    NotConvergedError,
    extreme_conditioning,
)
from ntk_conditioning.spectra.panel_matrix import PanelMatrix

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)


def kernel(eigenvalues, *, seed=1):
    """Return a symmetric matrix of about these eigenvalues, in random directions."""
    n = len(eigenvalues)
    directions = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    k = (directions * eigenvalues) @ directions.T
    return (k + k.T) / 2


def normal(*shape, seed=2):
    return np.random.default_rng(seed).standard_normal(shape)


def network_kernel(x, *, depth, width=64, dtype=torch.float64, activation="relu"):
    """Return the empirical NTK of a random network at ``x`` (n, d)."""
    mlp = init_mlp(
        x.shape[1],
        depth=depth,
        width=width,
        activation=activations.get(activation),
        generator=np.random.default_rng(depth),
        dtype=dtype,
    )
    return empirical.ntk(mlp, torch.from_numpy(x).to(dtype)).numpy()


def on_torch(k, *, dtype=None, entry_error=0.0):
    """Return what the code for GPUs computes, here on the processor."""
    matrix = PanelMatrix(torch.from_numpy(k.copy()), overwrite=True, panel=7)
    return extremal_eigenvalues._condition(matrix, np.dtype(dtype or k.dtype), entry_error)


def exact_extremes(k):
    """Return the smallest and the largest eigenvalue of ``k``, from 50 digits."""
    with mpmath.workdps(50):
        eigenvalues = mpmath.eigsy(mpmath.matrix(k.tolist()), eigvals_only=True)
        return float(min(eigenvalues)), float(max(eigenvalues))


def require_agreement(found, whole):
    """Require the same numbers, as far as their own bounds allow."""
    assert (found.n, found.dtype, found.reduced_precision) == (
        whole.n,
        whole.dtype,
        whole.reduced_precision,
    )
    assert found.numerical_rank == whole.numerical_rank
    allowed = found.lambda_max_error + whole.lambda_max_error
    assert found.lambda_max == pytest.approx(whole.lambda_max, rel=0, abs=allowed)
    assert found.resolution_floor == pytest.approx(
        whole.resolution_floor, abs=0, rel=found.lambda_max_error / found.lambda_max + 1e-12
    )
    assert (found.method, found.eigenvalues, found.effective_rank) == ("extremes", None, None)
    assert (found.kappa is None) == (whole.kappa is None)
    if found.kappa is None:
        assert found.lambda_min is found.lambda_min_error is found.kappa_error is None
        return
    allowed = found.lambda_min_error + whole.lambda_min_error
    assert found.lambda_min == pytest.approx(whole.lambda_min, rel=0, abs=allowed)
    assert found.kappa == pytest.approx(
        whole.kappa, abs=0, rel=found.kappa_error + whole.kappa_error
    )
    assert found.kappa == found.lambda_max / found.lambda_min == found.kappa_nonzero


# --- kernels of full rank -------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [1e2, 1e7, 1e12])
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_bounds_hold_against_50_digits(kappa, condition):
    k = kernel(np.geomspace(1, kappa, 30))
    smallest, largest = exact_extremes(k)
    found = condition(k)
    assert abs(found.lambda_max - largest) <= found.lambda_max_error
    assert abs(found.lambda_min - smallest) <= found.lambda_min_error
    assert abs(found.kappa / (largest / smallest) - 1) <= found.kappa_error
    # Lanczos stops at residuals of 1e-10; the rest are n roundings of lambda_max.
    assert found.lambda_max_error <= 1e-9 * largest
    assert found.lambda_min_error <= 1e-9 * smallest + 30 * EPS * largest
    assert found.kappa_error <= 2e-9 + 60 * EPS * kappa
    # The value itself is that of a backward stable solver.
    assert found.kappa == pytest.approx(largest / smallest, abs=0, rel=30 * EPS * kappa)
    assert found.numerical_rank == 30


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e10, 1e12])
def test_extremes_agree_with_the_whole_spectrum(n, kappa):
    k = kernel(np.geomspace(1, kappa, n))
    found = extreme_conditioning(k)
    require_agreement(found, conditioning(k))
    assert found.kappa_error < 1e-6 or kappa > 1e6


@pytest.mark.parametrize("n", [2, 10, 600])
def test_a_closed_form_is_met_within_the_bounds(n):
    """Integers min(i, j), whose inverse is the second difference (Rutherford 1948)."""
    k = np.minimum.outer(np.arange(1.0, n + 1), np.arange(1.0, n + 1))
    angles = (2 * np.array([1, n]) - 1) * np.pi / (4 * n + 2)
    largest, smallest = 1 / (4 * np.sin(angles) ** 2)
    found = extreme_conditioning(k)
    assert abs(found.lambda_max - largest) <= found.lambda_max_error
    assert abs(found.lambda_min - smallest) <= found.lambda_min_error
    assert abs(found.kappa - largest / smallest) <= found.kappa_error * found.kappa
    # The end is crowded: a vector to 1e-10 has a residual up to kappa as large, beside lambda_min.
    assert found.kappa_error < 1e-5


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_kernels_of_networks_agree_with_the_whole_spectrum(depth, activation):
    k = network_kernel(normal(300, 10), depth=depth, activation=activation)
    found, whole = extreme_conditioning(k), conditioning(k)
    require_agreement(found, whole)
    assert found.kappa == pytest.approx(whole.kappa, abs=0, rel=1e-8)
    assert found.kappa_error < 1e-6


def test_a_kernel_of_several_tiles_agrees_with_the_whole_spectrum():
    k = network_kernel(normal(1100, 20), depth=2)
    k[900:] = k[:200]
    k[:, 900:] = k[:, :200]  # as of equal samples
    whole = conditioning(k)
    require_agreement(extreme_conditioning(k), whole)
    assert whole.numerical_rank == 900


@pytest.mark.parametrize(
    "eigenvalues",
    [
        np.full(50, 7.0),
        np.r_[1.0, np.full(49, 1e-5)],
        np.r_[np.full(49, 1.0), 1e-5],
        1 + np.linspace(0, 1e-9, 50),
        np.r_[np.geomspace(1, 1e-6, 49), 1e-6 * (1 - 1e-9)],
        np.linspace(0.003, 1, 300) ** 4,
    ],
    ids=["one value", "many smallest", "many largest", "all close", "two close", "crowded end"],
)
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_close_and_equal_eigenvalues_are_no_trouble(eigenvalues, condition):
    k = kernel(eigenvalues)
    require_agreement(condition(k), conditioning(k))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_the_smallest_kernels_have_extremes_too(n, dtype, condition):
    k = kernel(np.geomspace(0.5, 50, n)).astype(dtype)
    found = condition(k)
    require_agreement(found, conditioning(k))
    smallest, largest = exact_extremes(k)
    assert abs(found.kappa / (largest / smallest) - 1) <= found.kappa_error


@pytest.mark.parametrize("power", [-200, 200])
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_a_scale_by_a_power_of_4_changes_no_ratio(power, condition):
    k = kernel(np.geomspace(1, 1e4, 50))
    found, scaled = condition(k), condition(2.0**power * k)
    assert scaled.lambda_max == pytest.approx(2.0**power * found.lambda_max, abs=0, rel=1e-12)
    assert scaled.kappa == pytest.approx(found.kappa, abs=0, rel=50 * EPS * 1e4)
    assert scaled.kappa_error == pytest.approx(found.kappa_error, abs=0, rel=0.5)


@pytest.mark.parametrize(
    "k", [3 * np.eye(300), np.kron(np.eye(20), np.ones((2, 2)))], ids=["identity", "pairs"]
)
def test_a_space_that_is_exhausted_gives_the_same_numbers_too(k):
    """Lanczos then goes on from another random vector, which must not differ between calls."""
    expected = extreme_conditioning(k)
    assert all(extreme_conditioning(k) == expected for _ in range(10))


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_float32_is_flagged_and_bounds_hold(depth, condition):
    k = network_kernel(normal(300, 10), depth=depth, dtype=torch.float32)
    found, whole = condition(k), conditioning(k)
    assert (found.dtype, found.reduced_precision) == ("float32", True)
    assert found.resolution_floor == pytest.approx(300 * EPS_SINGLE * found.lambda_max, abs=0)
    require_agreement(found, whole)
    # Errors that float32 allows, and not more than a few times these.
    assert found.lambda_min_error <= 300 * EPS_SINGLE * found.lambda_max


def test_float32_resolves_less():
    k = kernel(np.geomspace(1, 1e7, 20))
    assert extreme_conditioning(k).kappa is not None
    single = extreme_conditioning(k.astype(np.float32))
    require_agreement(single, conditioning(k.astype(np.float32)))
    assert (single.kappa, single.lambda_min) == (None, None)
    # The same numbers in a float64 array are no better known.
    widened = k.astype(np.float32).astype(np.float64)
    found = extreme_conditioning(widened, dtype="float32")
    require_agreement(found, conditioning(widened, dtype="float32"))
    assert (found.dtype, found.reduced_precision, found.kappa) == ("float32", True, None)


@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
@pytest.mark.parametrize(
    ("times_floor", "resolved"), [(1.001, True), (0.999, False), (10, True), (0.1, False)]
)
def test_lambda_min_counts_only_above_the_floor(condition, times_floor, resolved):
    n, entry_error = 40, 1e-9
    k = kernel(np.r_[np.geomspace(1, 0.01, n - 1), times_floor * n * entry_error])
    found = condition(k, entry_error=entry_error)
    require_agreement(found, conditioning(k, entry_error=entry_error))
    assert found.resolution_floor == pytest.approx(n * entry_error, abs=0, rel=1e-9)
    assert found.numerical_rank == (n if resolved else n - 1)
    assert (found.kappa is not None) == resolved
    assert found.kappa_nonzero == pytest.approx(
        1 / (times_floor * n * entry_error) if resolved else 100, abs=0, rel=1e-6
    )
    assert condition(k).kappa is not None


@pytest.mark.parametrize("n", [2, 3, 4, 30])
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_an_eigenvalue_at_the_floor_itself_counts_as_zero(n, condition):
    found = condition(np.diag([1.0] * (n - 1) + [n * EPS]))
    assert (found.numerical_rank, found.kappa, found.lambda_min) == (n - 1, None, None)
    assert found.kappa_nonzero == pytest.approx(1, rel=1e-6)


# --- kernels of less than full rank ---------------------------------------------------------------


def of_rank(n, rank):
    factor = normal(n, rank)
    return factor @ factor.T


def with_duplicates():
    x = normal(300, 10)
    x[250:] = x[:50]
    return network_kernel(x, depth=2)


DEFICIENT = {
    "rank 3 of 20": (partial(of_rank, 20, 3), 3),
    "rank 1 of 100": (partial(of_rank, 100, 1), 1),
    "rank 5 of 300": (partial(of_rank, 300, 5), 5),
    "rank 150 of 300": (partial(of_rank, 300, 150), 150),
    "rank 299 of 300": (partial(of_rank, 300, 299), 299),
    "ones": (partial(np.ones, (100, 100)), 1),
    # One hidden layer of 8 units on 5 inputs: 8 · 5 + 8 weights, 8 of which ReLU makes redundant.
    "few weights": (lambda: network_kernel(normal(300, 5), depth=1, width=8), 40),
    "tanh, few weights": (
        lambda: network_kernel(normal(300, 5), depth=1, width=8, activation="tanh"),
        48,
    ),
    "duplicates": (with_duplicates, 250),
}


@pytest.mark.parametrize("name", DEFICIENT)
@pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
def test_a_deficient_kernel_has_its_rank_and_no_kappa(name, condition):
    make, rank = DEFICIENT[name]
    k = make()
    found, whole = condition(k), conditioning(k)
    require_agreement(found, whole)
    assert (found.numerical_rank, found.kappa) == (rank, None)
    assert found.kappa_nonzero == pytest.approx(whole.kappa_nonzero, abs=0, rel=1e-6)


def test_single_precision_counts_the_same_rank():
    k = with_duplicates().astype(np.float32)
    found = extreme_conditioning(k)
    require_agreement(found, conditioning(k))
    assert found.numerical_rank == 250
    assert found.kappa_nonzero == pytest.approx(conditioning(k).kappa_nonzero, abs=0, rel=1e-3)


def test_a_spectrum_that_crosses_the_floor_is_counted():
    """The inertia moves by those eigenvalues that are a few roundings from the floor."""
    for n in (50, 300):
        k = kernel(np.geomspace(1, 1e-20, n))
        found, whole = extreme_conditioning(k), conditioning(k)
        near = np.abs(whole.eigenvalues / whole.resolution_floor - 1) < 4 / n
        assert abs(found.numerical_rank - whole.numerical_rank) <= near.sum()
        assert (found.kappa, found.lambda_min) == (None, None)


# --- memory ---------------------------------------------------------------------------------------


LAYOUTS = {
    "C": lambda k: k,
    "Fortran": np.asfortranarray,
    "every second": lambda k: np.repeat(np.repeat(k, 2, axis=0), 2, axis=1)[::2, ::2],
}
KERNELS = {
    "full": lambda: kernel(np.geomspace(1, 1e8, 60)),
    "deficient": lambda: of_rank(60, 7),
}


def read_only(k):
    k.flags.writeable = False
    return k


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_untouched_unless_it_may_be_overwritten(layout, name):
    original = KERNELS[name]()
    k = LAYOUTS[layout](original.copy())
    expected = extreme_conditioning(original)
    assert extreme_conditioning(k) == expected
    assert extreme_conditioning(torch.from_numpy(k)) == expected
    assert extreme_conditioning(read_only(k), overwrite=True) == expected
    assert k.tobytes() == original.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_overwriting_gives_the_same_numbers(layout, name):
    expected = extreme_conditioning(KERNELS[name]())
    k = LAYOUTS[layout](KERNELS[name]())
    assert extreme_conditioning(k, overwrite=True) == expected
    k = LAYOUTS[layout](KERNELS[name]())
    assert extreme_conditioning(torch.from_numpy(k), overwrite=True) == expected


@pytest.mark.parametrize("rank", [600, 300])
def test_nothing_of_the_kernels_size_is_allocated(monkeypatch, rank):
    # At 600 samples the usual tiles would hold all of the kernel.
    for module in (factorisations, spectra):
        monkeypatch.setattr(module, "upper_tiles", lambda n, _: upper_tiles(n, 64))
    k = of_rank(600, rank)
    extreme_conditioning(k[:50, :50])  # what is loaded once

    def peak(*, overwrite):
        tracemalloc.start()
        try:
            extreme_conditioning(k, overwrite=overwrite)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert k.nbytes <= peak(overwrite=False) < 1.25 * k.nbytes
    assert peak(overwrite=True) < 0.25 * k.nbytes


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "error"),
    [
        (np.ones((2, 3)), spectra.NotAMatrixError),
        (np.ones(4), spectra.NotAMatrixError),
        (np.ones((0, 0)), spectra.NotAMatrixError),
        (np.eye(3, dtype=int), spectra.NotAMatrixError),
        (np.diag([1.0, np.nan]), spectra.NotFiniteError),
        (np.diag([1.0, np.inf]), spectra.NotFiniteError),
        (np.eye(3) + 1e-6 * np.triu(np.ones((3, 3)), 1), spectra.NotSymmetricError),
        (np.zeros((1, 1)), spectra.ZeroKernelError),
        (np.zeros((3, 3)), spectra.ZeroKernelError),
        (np.zeros((30, 30), dtype=np.float32), spectra.ZeroKernelError),
    ],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_what_is_no_kernel_is_refused_as_for_whole_spectra(k, error, overwrite):
    with pytest.raises(error):
        conditioning(k)
    for given in (k, torch.from_numpy(k)):
        with pytest.raises(error) as caught:
            extreme_conditioning(given, overwrite=overwrite)
        assert "\n" not in str(caught.value)


def test_a_zero_kernel_on_a_device_is_refused_too():
    with pytest.raises(spectra.ZeroKernelError):
        on_torch(np.zeros((4, 4)))


def test_precision_cannot_be_claimed_above_the_array():
    with pytest.raises(spectra.NotAMatrixError, match="float32"):
        extreme_conditioning(np.eye(2, dtype=np.float32), dtype="float64")


@pytest.mark.parametrize("k", [kernel(np.linspace(1, 2, 300)), of_rank(300, 150)])
def test_no_convergence_is_told_in_one_line(monkeypatch, k):
    monkeypatch.setattr(extremal_eigenvalues, "MOST_RESTARTS", 1)
    with pytest.raises(NotConvergedError, match=r"n = 300: .*No convergence.*") as caught:
        extreme_conditioning(k)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError)

"""Extreme eigenvalues agree with whole spectra, within bounds that hold, or are missing."""

import tracemalloc

import numpy as np
import pytest
import torch

from ntk_conditioning import memory
from ntk_conditioning.angles.pairs import upper_tiles
from ntk_conditioning.kernels import empirical
from ntk_conditioning.spectra import condition_numbers as spectra
from ntk_conditioning.spectra import extremal_eigenvalues
from ntk_conditioning.spectra.condition_numbers import EPS, KernelError, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from tests.ntk_conditioning.gradients import OnDevice, inputs, network
from tests.ntk_conditioning.references import exact_extremes, kernel


def network_kernel(n, d, *, dtype=torch.float64, width=64, **options):
    """Return the empirical NTK of a random ReLU network at ``n`` samples in ``d`` dimensions."""
    mlp = network(d, dtype=dtype, width=width, **options)
    return empirical.ntk(mlp, inputs(n, d).to(dtype)).numpy()


def on_torch(k, **options):
    return extreme_conditioning(torch.from_numpy(k).as_subclass(OnDevice), **options)


BOTH = pytest.mark.parametrize("condition", [extreme_conditioning, on_torch])
ALL = pytest.mark.parametrize("condition", [conditioning, extreme_conditioning, on_torch])


def agreeing(condition, k, **options):
    """Require the numbers of the whole spectrum, as far as their own bounds allow; return both."""
    found, whole = condition(k, **options), conditioning(k, **options)
    if whole.numerical_rank < len(k):
        assert found == whole
        return found, whole
    for name in ("n", "dtype", "reduced_precision", "numerical_rank"):
        assert getattr(found, name) == getattr(whole, name)
    allowed = found.lambda_max_error + whole.lambda_max_error
    assert found.lambda_max == pytest.approx(whole.lambda_max, rel=0, abs=allowed)
    rel = found.lambda_max_error / found.lambda_max + 1e-12
    assert found.resolution_floor == pytest.approx(whole.resolution_floor, abs=0, rel=rel)
    assert (found.method, found.eigenvalues, found.effective_rank) == ("extremes", None, None)
    assert (found.kappa is None) == (whole.kappa is None)
    allowed = found.lambda_min_error + whole.lambda_min_error
    assert found.lambda_min == pytest.approx(whole.lambda_min, rel=0, abs=allowed)
    assert (found.kappa is None) == (found.kappa_error is None)
    if found.kappa is not None:
        rel = found.kappa_error + whole.kappa_error
        assert found.kappa == pytest.approx(whole.kappa, abs=0, rel=rel)
        assert found.kappa == found.lambda_max / found.lambda_min == found.kappa_nonzero
    return found, whole


@pytest.mark.parametrize(("n", "kappa"), [(1, 1.0), (2, 1e2), (30, 1e2), (30, 1e7), (30, 1e12)])
@pytest.mark.parametrize("scale", [1.0, 2.0**-400, 2.0**400])
@BOTH
def test_bounds_hold_against_50_digits(n, kappa, scale, condition):
    k = scale * kernel(np.geomspace(1, kappa, n))
    smallest, largest = exact_extremes(k)
    found, whole = agreeing(condition, k)
    assert (whole.dtype, whole.reduced_precision) == ("float64", False)
    # A backward stable solver moves lambda_min by a few eps lambda_max: eps kappa of itself.
    assert whole.kappa == pytest.approx(largest / smallest, abs=0, rel=4 * EPS * kappa)
    assert whole.kappa_nonzero == whole.kappa
    assert whole.resolution_floor == pytest.approx(n * EPS * largest, abs=0, rel=1e-9)
    assert abs(found.lambda_max - largest) <= found.lambda_max_error
    assert abs(found.lambda_min - smallest) <= found.lambda_min_error
    assert abs(found.kappa / (largest / smallest) - 1) <= found.kappa_error
    # Lanczos stops at residuals of 1e-10; the rest are n roundings of lambda_max.
    assert found.lambda_max_error <= 1e-9 * largest
    assert found.lambda_min_error <= 1e-9 * smallest + 30 * EPS * largest
    assert found.kappa_error <= 2e-9 + 60 * EPS * kappa
    # The value itself is that of a backward stable solver.
    assert found.kappa == pytest.approx(largest / smallest, abs=0, rel=30 * EPS * kappa)
    assert found.numerical_rank == n


@pytest.mark.parametrize("k", [3 * np.eye(300), np.kron(np.eye(20), np.ones((2, 2)))])
def test_a_space_that_is_exhausted_gives_the_same_numbers_too(k):
    """Lanczos then goes on from another random vector, which must not differ between calls."""
    expected = extreme_conditioning(k)
    assert all(extreme_conditioning(k) == expected for _ in range(10))


@BOTH
@pytest.mark.parametrize("times_floor", [1.001, 0.999, 10, 0.1])
def test_lambda_min_counts_only_above_the_floor(condition, times_floor):
    n, entry_error = 40, 1e-9
    k = kernel(np.r_[np.geomspace(1, 0.01, n - 1), times_floor * n * entry_error])
    found, _ = agreeing(condition, k, entry_error=entry_error)
    assert found.resolution_floor == pytest.approx(n * entry_error, abs=0, rel=1e-9)
    rank, kappa = (n, 1 / (times_floor * n * entry_error)) if times_floor > 1 else (n - 1, 100)
    assert found.numerical_rank == rank
    assert found.kappa_nonzero == pytest.approx(kappa, abs=0, rel=1e-6)
    assert condition(k).kappa is not None
    for size in (2, 30):  # at the floor itself
        found = condition(np.diag([1.0] * (size - 1) + [size * EPS]))
        assert (found.numerical_rank, found.kappa) == (size - 1, None)
        assert found.kappa_nonzero == pytest.approx(1, rel=1e-6)
    k = kernel(np.r_[np.linspace(1, 2, 20), -1e-4])
    assert condition(k, entry_error=1e-5).numerical_rank == 20  # errors of the entries explain it
    with pytest.raises(KernelError, match=r"smallest eigenvalue is -.*none below zero"):
        condition(k, entry_error=1e-6)


EXACT = [  # kernels, errors of their entries, and exact eigenvalues
    # of which LAPACK was seen to be off by 12 to 23 roundings of the largest
    *((np.eye(n) + 1, 0.0, n + 1, 1) for n in (300, 700)),
    # of which Lanczos' residual was seen below the error
    *((1024 * np.eye(n) - 1023 / n, 0.0, 1024, 1) for n in (64, 512)),
    # of a kernel with ± 1e-6 in every entry
    (np.eye(30), 1e-6, 1 + 30e-6, 1 - 30e-6),
]


@ALL
@pytest.mark.parametrize(("k", "entry_error", "largest", "smallest"), EXACT)
def test_bounds_contain_errors_that_were_seen(k, entry_error, largest, smallest, condition):
    found = condition(k, entry_error=entry_error)
    assert abs(found.lambda_max - largest) <= found.lambda_max_error
    assert abs(found.lambda_min - smallest) <= found.lambda_min_error


def of_rank(n, rank):
    factor = np.random.default_rng(2).standard_normal((n, rank))
    return factor @ factor.T


def with_equal_samples(n, equal):
    rows = np.r_[: n - equal, :equal]
    return network_kernel(n, 20, depth=2)[np.ix_(rows, rows)]


SPECIAL = {  # kernels, their ranks, and how exact their smallest eigenvalues are, if that is known
    "one value": (lambda: kernel(np.full(50, 7.0)), 50, None),
    "many smallest": (lambda: kernel(np.r_[1.0, np.full(49, 1e-5)]), 50, None),
    "many largest": (lambda: kernel(np.r_[np.full(49, 1.0), 1e-5]), 50, None),
    "all close": (lambda: kernel(1 + np.linspace(0, 1e-9, 50)), 50, None),
    "two close": (lambda: kernel(np.r_[np.geomspace(1, 1e-6, 49), 1e-6 * (1 - 1e-9)]), 50, None),
    "crowded end": (lambda: kernel(np.linspace(0.003, 1, 300) ** 4), 300, None),
    "small ridge": (lambda: of_rank(900, 20) + 1e-6 * np.eye(900), 900, None),
    "ReLU network": (lambda: network_kernel(300, 10, depth=3), 300, 1e-8),
    "float32 network": (lambda: network_kernel(300, 10, depth=3, dtype=torch.float32), 300, None),
    "float32 of 3": (lambda: kernel(np.geomspace(0.5, 50, 3)).astype(np.float32), 3, None),
    "rank 150 of 300": (lambda: of_rank(300, 150), 150, 1e-6),
    "rank 299 of 300": (lambda: of_rank(300, 299), 299, 1e-6),
    "ones": (lambda: np.ones((100, 100)), 1, 1e-6),
    # One hidden layer of 8 units on 5 inputs: 8 · 5 + 8 weights, 8 of which ReLU makes redundant.
    "few weights": (lambda: network_kernel(300, 5, depth=1, width=8), 40, 1e-6),
    "equal samples": (lambda: with_equal_samples(300, 50), 250, 1e-6),
    "float32": (lambda: with_equal_samples(300, 50).astype(np.float32), 250, 1e-3),
}


@pytest.mark.parametrize("name", SPECIAL)
@BOTH
def test_special_kernels_agree_with_the_whole_spectrum(name, condition):
    make, rank, rel = SPECIAL[name]
    k = make()
    found, whole = agreeing(condition, k)
    assert found.numerical_rank == rank
    if rel:
        assert found.kappa_nonzero == pytest.approx(whole.kappa_nonzero, abs=0, rel=rel)
    if name == "ReLU network":
        assert found.kappa_error < 1e-6
    if name == "float32 network":  # errors that float32 allows
        assert found.lambda_min_error <= 300 * np.finfo(k.dtype).eps * found.lambda_max
    if name == "small ridge":  # which is known as well as by the whole spectrum
        assert found.kappa_error < 3 * 900 * EPS * found.kappa


@pytest.mark.parametrize("layout", ["C", "Fortran", "every second"])
@pytest.mark.parametrize("rank", [60, 7])
def test_a_kernel_is_untouched_unless_it_may_be_overwritten(layout, rank):
    def arranged():
        k = kernel(np.r_[np.geomspace(1, 1e6, rank), np.zeros(60 - rank)])
        if layout == "every second":
            return np.repeat(np.repeat(k, 2, axis=0), 2, axis=1)[::2, ::2]
        return np.asarray(k, order=layout[0])

    k, expected = arranged(), extreme_conditioning(np.ascontiguousarray(arranged()))
    for given in (np.asarray, torch.from_numpy):
        assert extreme_conditioning(given(k)) == expected
        assert extreme_conditioning(given(arranged()), overwrite=True) == expected
    assert k.tobytes() == arranged().tobytes()


def test_nothing_of_the_kernels_size_is_allocated_by_small_tiles(monkeypatch):
    # At 600 samples the usual tiles would hold all of the kernel.
    monkeypatch.setattr(spectra, "upper_tiles", lambda n, _: upper_tiles(n, 64))
    k = of_rank(600, 600)
    agreeing(extreme_conditioning, of_rank(600, 300))
    peaks = []
    for overwrite in (False, True):
        tracemalloc.start()
        extreme_conditioning(k, overwrite=overwrite)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert k.nbytes <= peaks[0] < 1.25 * k.nbytes
    assert peaks[1] < 0.25 * k.nbytes


CLOSE = np.geomspace(1e-14, 1e-3, 200)
CROWDED = {  # where Lanczos cannot tell eigenvectors apart
    "smallest": np.diag(1 + np.geomspace(1e-12, 1e6, 300)),
    "largest": kernel(np.r_[np.geomspace(1, 1e3, 100), 1e6 * (1 - CLOSE)]),
}
SINGLE = CROWDED["largest"].astype(np.float32)
HELD = [(on_torch, of_rank(23, 11), 2), (extreme_conditioning, SINGLE, 1)]  # kept, and of a solver


@BOTH
@pytest.mark.parametrize("k", CROWDED.values(), ids=CROWDED)
def test_crowded_eigenvalues_are_found_by_the_whole_spectrum(k, condition, caplog, monkeypatch):
    monkeypatch.setattr(extremal_eigenvalues, "MOST_RESTARTS", 20)  # all take seconds
    assert condition(k) == conditioning(k)
    (line,) = caplog.messages
    assert line.startswith("n = 300: extreme eigenvalues are too close")


@pytest.mark.parametrize(("condition", "k", "numbers"), HELD)
def test_what_the_host_must_hold_in_float64_must_be_available(condition, k, numbers, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * numbers * k.size)
    assert condition(k).numerical_rank == conditioning(k).numerical_rank
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * numbers * k.size - 1)
    with pytest.raises(memory.NotEnoughMemoryError, match=r"^the whole spectrum of a kernel of"):
        condition(k)

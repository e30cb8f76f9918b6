"""The spike and the bulk of correlation matrices, against explicit eigenvalues in many digits."""

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from ntk_conditioning.spectra.spikes import spike_and_bulk


def distances(x):
    """Return 1 - x_i · x_j of rows of norm 1, from their differences."""
    return pdist(x, "sqeuclidean") / 2


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("closeness", [0.0, 0.9])
def test_eigenvalues_are_those_of_the_kernel_and_of_the_centred_one(closeness):
    rng = np.random.default_rng(0)
    x = unit(closeness * np.eye(30)[0] + (1 - closeness) * unit(rng.standard_normal((20, 30))))
    k = x @ x.T
    found = spike_and_bulk(distances(x))
    expected = np.linalg.eigvalsh(k)
    assert found.lambda_max == pytest.approx(expected[-1])
    assert found.lambda_2 == pytest.approx(expected[-2])
    assert found.lambda_min == pytest.approx(expected[0])
    assert found.kappa == pytest.approx(expected[-1] / expected[0])
    centring = np.eye(20) - 1 / 20
    bulk = np.linalg.eigvalsh(centring @ k @ centring)  # the first is 0, of the mean direction
    assert found.bulk_max == pytest.approx(bulk[-1])
    assert found.bulk_min == pytest.approx(bulk[1])
    assert found.bulk_kappa == pytest.approx(bulk[-1] / bulk[1])


def test_close_samples_keep_the_digits_that_entries_lose():
    """Distances of 1e-12, of which a kernel's entries keep four digits."""
    rng = np.random.default_rng(1)
    far = distances(unit(rng.standard_normal((6, 9)))) * 1e-12
    found = spike_and_bulk(far)
    with mpmath.workdps(40):
        k = mpmath.eye(6)
        for value, (i, j) in zip(far, zip(*np.triu_indices(6, 1), strict=True), strict=True):
            k[int(i), int(j)] = k[int(j), int(i)] = 1 - mpmath.mpf(float(value))
        exact = [float(value) for value in sorted(mpmath.eigsy(k, eigvals_only=True))]
    assert found.lambda_min == pytest.approx(exact[0], rel=1e-12)
    assert found.lambda_min_error < 1e-2 * exact[0]
    assert found.kappa == pytest.approx(exact[-1] / exact[0], rel=1e-12)


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
    """Of two samples λ_min is their distance, known to 4 times the entries' error."""
    close = spike_and_bulk(np.array([1e-3]), error=1e-3 / 7)
    assert 0 < close.lambda_min_error < close.lambda_min
    singular = spike_and_bulk(distances(unit(np.random.default_rng(2).standard_normal((12, 5)))))
    assert abs(singular.lambda_min) < singular.lambda_min_error
    for found in (close, singular):
        assert (found.kappa, found.kappa_error, found.bulk_kappa) == (None, None, None)
    known = spike_and_bulk(np.array([1e-3]), error=1e-3 / 9)
    assert known.kappa == pytest.approx(1999, rel=1e-9)
    assert known.kappa_error < 1

"""The spike and the bulk of correlation matrices, against explicit eigenvalues in many digits."""

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from ntk_conditioning.spectra.spikes import spike_and_bulk
from ntk_conditioning.theory.sphere import unit_rows as unit


def distances(x):
    """Return 1 - x_i · x_j of rows of norm 1, from their differences."""
    return pdist(x, "sqeuclidean") / 2


@pytest.mark.parametrize("closeness", [0.0, 0.9])
def test_eigenvalues_are_those_of_the_kernel_and_of_the_centred_one(closeness):
    rng = np.random.default_rng(0)
    x = unit(closeness * np.eye(30)[0] + (1 - closeness) * unit(rng.standard_normal((20, 30))))
    k = x @ x.T
    found, centring = spike_and_bulk(distances(x)), np.eye(20) - 1 / 20
    low, *_, second, high = np.linalg.eigvalsh(k)
    numbers = found.lambda_max, found.lambda_2, found.lambda_min, found.kappa
    assert numbers == pytest.approx((high, second, low, high / low))
    _, low, *_, high = np.linalg.eigvalsh(centring @ k @ centring)  # 0 along the mean direction
    numbers = found.bulk_max, found.bulk_min, found.bulk_kappa
    assert numbers == pytest.approx((high, low, high / low))


def test_close_samples_keep_the_digits_that_entries_lose():
    """Distances of 1e-12, of which a kernel's entries keep four digits."""
    far = distances(unit(np.random.default_rng(1).standard_normal((6, 9)))) * 1e-12
    found = spike_and_bulk(far)
    with mpmath.workdps(40):
        k = mpmath.ones(6) - mpmath.matrix(squareform(far).tolist())
        low, *_, high = sorted(map(float, mpmath.eigsy(k, eigvals_only=True)))
    assert found.lambda_min == pytest.approx(low, rel=1e-12)
    assert found.lambda_min_error < 1e-2 * low
    assert found.kappa == pytest.approx(high / low, rel=1e-12)


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

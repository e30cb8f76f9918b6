"""Labels in the spectrum of a kernel: energies that sum to 1, and alignments that are known."""

import numpy as np
import pytest

from ntk_conditioning.spectra.labels import effective_kappa, kernel_target_alignment, label_spectrum


def test_energy_sums_to_one_and_is_that_of_the_eigenvectors():
    rng = np.random.default_rng(0)
    factor, residual = rng.standard_normal((12, 9)), rng.standard_normal((12, 3))
    eigenvalues, energy = label_spectrum(factor @ factor.T, residual)
    assert energy.sum() == pytest.approx(1, abs=1e-12)
    # by singular values of the factor, an independent way
    u, s, _ = np.linalg.svd(factor)
    np.testing.assert_allclose(eigenvalues[:9], s**2, rtol=1e-10)
    expected = np.square(u[:, :9].T @ residual).sum(1) / np.square(residual).sum()
    np.testing.assert_allclose(energy[:9], expected, rtol=1e-9)


def test_the_effective_condition_number_sees_only_where_labels_are():
    kernel = np.diag([100.0, 10.0, 1e-9])
    assert effective_kappa(*label_spectrum(kernel, np.array([[1.0], [1.0], [0.01]]))) == 10
    assert effective_kappa(*label_spectrum(kernel, np.ones((3, 1)))) > 1e10


def test_alignment_is_one_for_the_targets_themselves_and_zero_across():
    y, across = np.array([[1.0, 1, -1, -1], [1.0, -1, 1, -1]])[..., None]
    rows = np.arange(4.0)  # centring removes it from rows and columns
    assert kernel_target_alignment(y @ y.T + rows + rows[:, None], 3 * y - 1) == pytest.approx(1)
    assert kernel_target_alignment(across @ across.T, y) == pytest.approx(0, abs=1e-15)

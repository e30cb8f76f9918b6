"""A symmetric matrix is factored in its own memory, whatever the panels."""

import numpy as np
import pytest
import torch

from ntk_conditioning import memory
from ntk_conditioning.spectra.panel_matrix import PanelMatrix, scratch_bytes

N = 23
PANELS = pytest.mark.parametrize("panel", [1, 7, 22, 23, 100])
V = np.random.default_rng(1).standard_normal(N)


def positive():
    factor = torch.from_numpy(np.random.default_rng(0).standard_normal((N, 2 * N)))
    return factor @ factor.mT


@PANELS
def test_products_and_solutions_before_and_after_it_is_factored_again(panel):
    given, k = positive(), positive().numpy()
    matrix = PanelMatrix(given, overwrite=True, panel=panel)
    np.testing.assert_allclose(matrix.multiply(V), k @ V, rtol=1e-12)
    for shift in (0.0, 2.0, 0.0):
        assert matrix.factor(shift)
        lower, shifted = given.tril().numpy(), k + shift * np.eye(N)
        np.testing.assert_array_equal(np.triu(given.numpy(), 1), np.triu(k, 1))
        np.testing.assert_allclose(lower @ lower.T, shifted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(matrix.multiply(V), k @ V, rtol=1e-12)
        np.testing.assert_allclose(matrix.solve(V), np.linalg.solve(shifted, V), rtol=1e-9)


@PANELS
def test_an_indefinite_matrix_has_no_factor_and_is_there_all_the_same(panel):
    k = positive().numpy()
    k -= np.median(np.linalg.eigvalsh(k)) * np.eye(N)
    matrix = PanelMatrix(torch.from_numpy(k.copy()), overwrite=True, panel=panel)
    assert not matrix.factor(0.0)
    np.testing.assert_allclose(matrix.multiply(V), k @ V, rtol=1e-11, atol=1e-11)
    assert matrix.factor_shifted(-1e-3) == N // 2 + 1  # the median itself is above the shift
    np.testing.assert_allclose(matrix.multiply(V), k @ V, rtol=1e-11, atol=1e-11)
    solved = np.linalg.solve(k + 1e-3 * np.eye(N), V)
    np.testing.assert_allclose(matrix.solve_shifted(V), solved, rtol=1e-7)


def test_a_host_that_is_too_small_for_the_rank_says_so(monkeypatch):
    matrix = PanelMatrix(positive(), overwrite=True, panel=7)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * N**2 - 1)
    refusal = r"^the kernel of 23 samples has not full rank"
    with pytest.raises(memory.NotEnoughMemoryError, match=refusal):
        matrix.factor_shifted(0.5)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * N**2)
    assert matrix.factor_shifted(-0.5) == N


def test_a_matrix_that_is_not_to_be_overwritten_is_copied():
    k = positive()
    assert PanelMatrix(k, overwrite=False, panel=7).factor(0.0)
    assert torch.equal(k, positive())


def test_what_is_needed_beside_60_000_samples_fits_on_a_gpu_of_40_gb():
    assert 8 * 60_000**2 + scratch_bytes(60_000, itemsize=8) < 33e9

"""A kernel's conditioning reads as a sentence, of tensors and arrays, small and large."""

import numpy as np
import pytest
import torch

import ntk_conditioning
from ntk_conditioning import condition
from ntk_conditioning.spectra.condition_numbers import Conditioning, conditioning


def test_a_tensor_and_an_array_give_the_numbers_of_the_spectrum():
    k = np.diag([5.0, 2.0, 1.0])
    expected = conditioning(k)
    for given in (k, torch.from_numpy(k).requires_grad_()):
        numbers = condition(given)
        assert isinstance(numbers, Conditioning)
        assert (numbers.kappa, numbers.resolution_floor) == (5, expected.resolution_floor)
        assert repr(numbers).startswith("kappa 5, known to ")
        assert "rank 3 of 3" in repr(numbers)


def test_what_is_not_resolved_is_said():
    numbers = condition(np.diag([4.0, 2.0, 0.0]).astype(np.float32))
    assert numbers.kappa is None
    assert "not resolved, 2 above the floor" in repr(numbers)
    assert "rank 2 of 3" in repr(numbers)
    assert "float32" in repr(numbers)
    words = repr(condition(np.diag([1.0] * 19 + [6e-15])))  # may be off by more than itself
    assert words.startswith("kappa is not resolved, 1.667e+14 above the floor; rank 20 of 20")


def test_of_a_large_kernel_the_extremes_are_found_and_the_kernel_is_kept():
    k = torch.diag(torch.linspace(1, 3, 2100, dtype=torch.float64))
    before = k.clone()
    numbers = condition(k)
    assert numbers.method == "extremes"
    assert numbers.kappa == pytest.approx(3, rel=1e-9)
    assert torch.equal(k, before)


def test_the_package_has_no_other_names():
    with pytest.raises(AttributeError, match="kappa"):
        _ = ntk_conditioning.kappa

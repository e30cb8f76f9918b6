"""Losses stay finite; rates are rounded to be the same everywhere."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.training.descent import rounded_down
from ntk_conditioning.training.losses import make_loss


def test_outputs_far_apart_keep_the_cross_entropy_finite():
    loss = make_loss("cross_entropy", outputs="classes", classes=2, dtype=torch.float32)
    f, wrong = torch.tensor([[1e4, -1e4]]), torch.tensor([1])
    assert loss.values(f, wrong).tolist() == [2e4]
    assert loss.gradient(f, wrong).tolist() == [[1, -1]]
    assert loss.values(f, wrong - 1).tolist() == [0]


@given(st.floats(1e-12, 1e12))
def test_rates_are_rounded_down_to_three_digits(exact):
    rate = rounded_down(exact)
    # 1e-12 is what an exact decimal may lose as a product
    assert exact * (1 - 1e-2) < rate <= exact * (1 + 2e-12)
    assert rate == float(f"{rate:.3g}")
    # a decimal rate stays as it is, though a product may lie just below it
    for product in (rate, 3.0 * (rate / 3), np.nextafter(rate, 0)):
        assert rounded_down(product) == rate

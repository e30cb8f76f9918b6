"""What tests of kernels of modules share."""

import pytest
import torch


@pytest.fixture
def double():
    """New tensors and layers are of double precision, and random ones the same in each test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)

"""Batch normalisation whose statistics are held fixed, so that samples do not interact."""

from torch import Tensor, nn
from torch.optim.swa_utils import update_bn


def has_batch_norm(module: nn.Module) -> bool:
    """Return whether samples interact in training, by batch normalisation."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules())


def freeze_statistics(module: nn.Module, x: Tensor) -> None:
    """Put a module into evaluation mode, its batch norms with the statistics of ``x`` (n, ...).

    These are the means and (unbiased) variances of what each layer sees of the samples; a network
    at initialisation has none yet.

    >>> import torch
    >>> norm = nn.BatchNorm1d(1, dtype=torch.float64)
    >>> freeze_statistics(norm, torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    >>> norm.running_mean.tolist(), norm.running_var.tolist(), norm.training
    ([2.0], [2.0], False)
    """
    update_bn([x], module)
    module.eval()

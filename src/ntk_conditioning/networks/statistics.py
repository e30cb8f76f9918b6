"""Batch normalisation whose statistics are held fixed, so that samples do not interact."""

import torch
from torch import Tensor, nn

#: Of vectors, images and volumes.
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def has_batch_norm(module: nn.Module) -> bool:
    """Return whether samples interact in training, by batch normalisation."""
    return any(isinstance(layer, BATCH_NORMS) for layer in module.modules())


@torch.no_grad()
def freeze_statistics(module: nn.Module, x: Tensor) -> None:
    """Put a module into evaluation mode, its batch norms with the statistics of ``x`` (n, ...).

    A network at initialisation has no running statistics yet: in evaluation mode its batch norms
    would do nothing. Each layer gets the means and the (unbiased) variances of what it sees of
    these samples; gradients through them are not taken.

    >>> norm = nn.BatchNorm1d(1, dtype=torch.float64)
    >>> freeze_statistics(norm, torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    >>> norm.running_mean.tolist(), norm.running_var.tolist(), norm.training
    ([2.0], [2.0], False)
    """
    norms = [layer for layer in module.modules() if isinstance(layer, BATCH_NORMS)]
    if norms:
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0  # of the new statistics
        module.train()
        module(x)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    module.eval()

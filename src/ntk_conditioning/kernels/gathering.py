"""Gradients of each sample, by parameter, from what a trace has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ntk_conditioning.kernels.traces import Derived, Trace


def gather(
    trace: Trace,
    parameters: Mapping[str, Tensor],
    n: int,
    sink: Callable[[str, Tensor], None] | None = None,
) -> dict[str, Tensor]:
    """Return the gradients (n, p) by each parameter, or give them to ``sink`` one by one.

    A parameter that is used several times gets their sum, or in ``sink`` one after the other.
    """
    total: dict[str, Tensor] = {}

    def add(name: str, gradient: Tensor) -> None:
        total[name] = total[name] + gradient if name in total else gradient

    for record in trace.records:
        if record.delta is None:
            continue
        for use in record.uses:
            pull_back(use.weight, use.gradient(record.delta), parameters, sink or add)
    return total


def pull_back(
    weight: Derived,
    gradient: Tensor,
    parameters: Mapping[str, Tensor],
    sink: Callable[[str, Tensor], None],
) -> None:
    """Give the gradients by the roots of ``weight`` that follow from those by itself to ``sink``."""
    n = len(gradient)
    if weight.tensor.is_leaf:
        (root,) = weight.roots
        sink(root, gradient.reshape(n, -1))
        return
    roots = sorted(weight.roots)
    pulled = torch.autograd.grad(
        weight.tensor,
        [parameters[root] for root in roots],
        grad_outputs=gradient.reshape(n, *weight.tensor.shape),
        is_grads_batched=True,
        retain_graph=True,
        allow_unused=True,
    )
    for root, part in zip(roots, pulled, strict=True):
        if part is not None:
            sink(root, part.reshape(n, -1))

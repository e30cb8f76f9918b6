"""Gradients of each sample, by parameter, from what a trace has seen."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ntk_conditioning.kernels.traces import Trace, Use

Sink = Callable[[str, Tensor], None]


def gather(trace: Trace, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients (n, p) by each parameter that was used."""
    total: dict[str, Tensor] = {}

    def add(name: str, gradient: Tensor) -> None:
        total[name] = total[name] + gradient if name in total else gradient

    for record in trace.records:
        if record.delta is not None:
            for use in record.uses:
                pull_back(use, record.delta, parameters, add)
    return total


def pull_back(use: Use, delta: Tensor, parameters: Mapping[str, Tensor], sink: Sink) -> None:
    """Give ``sink`` the gradients (n, p) by each of the ``parameters`` that a weight is made from.

    They follow from the gradients ``delta`` at the output of the call that uses the weight.
    """
    gradient, weight = use.gradient(delta), use.weight
    if use.is_direct:
        (root,) = weight.roots
        sink(root, gradient.reshape(len(gradient), -1))
        return
    roots = sorted(weight.roots)
    pulled = torch.autograd.grad(
        weight.tensor,
        [parameters[root] for root in roots],
        grad_outputs=gradient,
        is_grads_batched=True,
        retain_graph=True,
        allow_unused=True,
    )
    for root, part in zip(roots, pulled, strict=True):
        if part is not None:
            sink(root, part.reshape(len(part), -1))

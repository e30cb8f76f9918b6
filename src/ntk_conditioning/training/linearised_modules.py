"""Networks of torch's modules that are linear in their weights: see `linearised`."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from ntk_conditioning.networks.modules import Network


class Expansion(Network):
    """The expansion f_0(x) + <grad f(x; w_0), w - w_0> of a network at the weights that it has.

    Its parameters are the weights w, which training moves. A `ModuleEnsemble` of expansions takes
    the steps that one of the networks themselves takes.

    >>> square = nn.Linear(1, 1, bias=False)
    >>> _ = square.requires_grad_(False).weight.fill_(3.0)
    >>> square.forward = lambda x: (x * square.weight**2, None)
    >>> square.rate_groups = dict
    >>> expansion = Expansion(square)
    >>> _ = square.weight.fill_(4.0)
    >>> expansion(torch.tensor([[1.0]]))[0].item()  # 9 + 6 (4 - 3)
    15.0
    """

    def __init__(self, network: Network) -> None:
        super().__init__([], nn.Identity())
        _prepare()
        self.moved = network
        self._start = {name: w.detach().clone() for name, w in network.named_parameters()}

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        change = {name: w - self._start[name] for name, w in self.moved.named_parameters()}

        def outputs(weights: dict[str, Tensor]) -> Tensor:
            f: Tensor = functional_call(self.moved, weights, (x,))[0]
            return f

        with sdpa_kernel(SDPBackend.MATH):  # the attention that has a forward derivative
            f, moved, *_ = jvp(outputs, (self._start,), (change,))
        return f + moved, None

    def train(self, mode: bool = True) -> Self:
        return self  # in evaluation mode, torch takes shortcuts that have no forward derivative

    def rate_groups(self) -> dict[float, list[nn.Parameter]]:
        return self.moved.rate_groups()


@cache
def _prepare() -> None:
    """Have torch load what it differentiates forward with, of which it warns itself."""
    zero = torch.zeros(())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (zero,), (zero,))


def expansions(
    make: Callable[[np.random.Generator], Network],
) -> Callable[[np.random.Generator], Expansion]:
    """Return what makes the expansions of the networks that ``make`` makes."""
    return lambda rng: Expansion(make(rng))

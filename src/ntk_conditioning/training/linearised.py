"""Expansions of networks at initialisation, which are linear in their weights (Lee et al. 2019).

A `Training` of them takes the same steps as one of the networks: what differs between the two
curves is due to the change of the kernel. `prediction` has closed forms of full-batch descent.
"""

import warnings
from typing import Self

from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from ntk_conditioning.networks.modules import Network


class Expansion(Network):
    """The expansion f_0(x) + <grad f(x; w_0), w - w_0> of a network's outputs at its weights w_0.

    Its parameters are the weights w, which a `Training` moves as the network's own.
    """

    def __init__(self, network: Network) -> None:
        super().__init__([], nn.Identity())
        self.moved = network
        self._start = {name: w.detach().clone() for name, w in network.named_parameters()}

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        change = {name: w - self._start[name] for name, w in self.moved.named_parameters()}

        def outputs(weights: dict[str, Tensor]) -> Tensor:
            f: Tensor = functional_call(self.moved, weights, (x,))[0]
            return f

        # torch warns of itself; and only one of its attentions has a forward derivative
        deprecated = warnings.catch_warnings(action="ignore", category=DeprecationWarning)
        with deprecated, sdpa_kernel(SDPBackend.MATH):
            f, moved, *_ = jvp(outputs, (self._start,), (change,))
        return f + moved, None

    def train(self, mode: bool = True) -> Self:
        return self  # in evaluation mode, torch takes shortcuts that have no forward derivative

    def rate_groups(self) -> dict[float, list[nn.Parameter]]:
        return self.moved.rate_groups()

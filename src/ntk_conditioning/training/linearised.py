"""Networks that are linear in their weights, trained as the networks that they are expanded from.

A network f is replaced by its expansion at the initial weights w_0,

    f_0(x) + <grad f(x; w_0), v>,   v = w - w_0,

for every output (Lee et al. 2019). The weights' changes v take the same steps on the same samples,
with the same losses, rates and momentum, so that what is left between the two curves is what the
change of the kernel does. For the square loss and all samples in a step, `prediction` has the
curve in closed form.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import hardshrink

from ntk_conditioning.networks.modules import Network
from ntk_conditioning.training.tangents import Architecture, Tangent, tangent
from ntk_conditioning.training.trainer import Group, Split, Training, rows_of

#: Smaller steps of outputs are 0: subnormal numbers would slow a processor down many times.
NEGLIGIBLE = 1e-25


class Linearised(Training):
    """The expansions of networks of one `Architecture`; other arguments are a `Training`'s.

    The gradients of all samples are kept, c times as large as the network's activations. All
    rates of a seed are trained together.
    """

    def __init__(self, architecture: Architecture, *networks: Any, **options: Any) -> None:
        self._architecture = architecture
        self._tangents: dict[int, Tangent] = {}  # by seed
        super().__init__(*networks, **options)

    def _begin(self, numbers: Sequence[int]) -> list[Group]:
        groups = []
        for seed in dict.fromkeys(self.members[number].seed for number in numbers):
            x, outputs = self._train[seed].x, self._loss.outputs
            weights = self._architecture.draw(x.shape[1], outputs, seed=seed, like=x)
            self._tangents[seed] = tangent(weights, self._architecture.activation, x)
            part = [number for number in numbers if self.members[number].seed == seed]
            changes = [w.new_zeros(len(part), *w.shape) for w in weights]
            groups.append(self._group(part, "change", changes))
        return groups

    def _descend(self, group: Group, rows: Mapping[int, Any], *, last: bool) -> None:
        here, labels = self._gather(group, self._train, rows)
        f, _ = self._forward(group, here)
        self._watch_step(group, f, labels)
        pace = (-self._rates[group.index] / f.shape[1]).to(f)[:, None, None]
        pull = hardshrink(self._loss.gradient(f, labels).mul_(pace), NEGLIGIBLE)
        velocities, changes = group.kind("velocity"), group.kind("change")
        for velocity in velocities:
            velocity.mul_(self.descent.momentum)
        here.add_gradients(velocities or changes, pull)
        for change, velocity in zip(changes, velocities, strict=False):
            change += velocity

    def _gather(
        self, group: Group, parts: Mapping[int, Split], rows: Mapping[int, Any]
    ) -> tuple[Any, Tensor]:
        """Return the expansion at some of the samples of the members' only seed, and labels."""
        seed = self.members[group.numbers[0]].seed
        whole, chosen = self._tangents[seed], rows[seed]
        alphas, deltas = (
            tuple(rows_of(t, chosen) for t in factors) for factors in (whole.alphas, whole.deltas)
        )
        labels = parts[seed].y[chosen].expand(len(group.numbers), -1)
        return Tangent(rows_of(whole.f, chosen), alphas, deltas), labels

    def _forward(self, group: Group, x: Any) -> tuple[Tensor, None]:
        return x.outputs(group.kind("change")), None


class Expansion(Network):
    """The expansion f_0(x) + <grad f(x; w_0), w - w_0> of a network at the weights that it has.

    Its parameters are the weights w, which a `ModuleEnsemble` moves as the network's own.

    >>> import torch
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

"""Networks that are linear in their weights, trained as the networks that they are expanded from.

A network f is replaced by its expansion at the initial weights w_0,

    f_0(x) + <grad f(x; w_0), v>,   v = w - w_0,

for every output (Lee et al. 2019). The weights' changes v take the same steps on the same samples,
with the same losses, rates and momentum, so that what is left between the two curves is what the
change of the kernel does. For the square loss and all samples in a step, `prediction` has the
curve in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from ntk_conditioning.networks.mlp import MLP, draw_weights, gradient_factors
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Course
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.mlp_ensemble import Architecture, named
from ntk_conditioning.training.trainer import Group, Member, Part, Training, rows_of

#: Steps of outputs that are taken for none: of decided samples they become subnormal numbers, in
#: which a processor multiplies many times slower.
NEGLIGIBLE = 1e-25


@dataclass(frozen=True, eq=False)
class Tangent:
    """Gradients of a network's c outputs at n samples, as outer products, and the outputs there.

    The gradient of output a at sample i by W_l is deltas[l-1][i, :, a] alphas[l-1][i]^T, with
    ``deltas`` (n, m_l, c) and ``alphas`` (n, m_(l-1)). Of the last layer, where delta is the unit
    vector of the output, only the alphas are stored; ``f`` is (n, c).
    """

    f: Tensor
    alphas: tuple[Tensor, ...]
    deltas: tuple[Tensor, ...]

    def rows(self, rows: slice | Tensor) -> Tangent:
        """The same at some of the samples."""
        both = (self.alphas, self.deltas)
        alphas, deltas = (tuple(rows_of(a, rows) for a in each) for each in both)
        return Tangent(rows_of(self.f, rows), alphas, deltas)

    def outputs(self, changes: Sequence[Tensor]) -> Tensor:
        """Return the outputs (r, n, c) of r networks, by the changes (r, m_l, m_(l-1)) of W_l."""
        total = self.f + self.alphas[-1] @ changes[-1].mT
        for alpha, delta, change in zip(self.alphas, self.deltas, changes, strict=False):
            r, height, width = change.shape
            moved = (alpha @ change.view(r * height, width).T).view(len(alpha), r, height)
            # MKL multiplies many small matrices five times as fast if the second is not transposed
            total += (moved @ delta).movedim(1, 0)
        return total

    def kernel(self) -> Tensor:
        """Return the NTK (n c, n c) of all outputs, sample by sample."""
        n, c = self.f.shape
        k = torch.einsum("ij,ab->iajb", self.alphas[-1] @ self.alphas[-1].T, _unit(self.f))
        for alpha, delta in zip(self.alphas, self.deltas, strict=False):
            flat = delta.mT.reshape(n * c, -1)
            k.addcmul_((flat @ flat.T).view(n, c, n, c), (alpha @ alpha.T)[:, None, :, None])
        return k.reshape(n * c, n * c)

    def mean_kernel(self) -> Tensor:
        """Return the mean (n, n) over outputs of the NTK of one."""
        n, c = self.f.shape
        k = self.alphas[-1] @ self.alphas[-1].T
        for alpha, delta in zip(self.alphas, self.deltas, strict=False):
            flat = delta.reshape(n, -1)
            k.addcmul_(flat @ flat.T, alpha @ alpha.T, value=1 / c)
        return k

    def add_gradients(self, changes: Sequence[Tensor], pull: Tensor) -> None:
        """Add to the ``changes`` the gradients of all outputs, weighted by ``pull`` (r, n, c)."""
        changes[-1].baddbmm_(pull.mT, self.alphas[-1].expand(len(pull), -1, -1))
        weights = pull.movedim(0, 1).contiguous()
        for alpha, delta, change in zip(self.alphas, self.deltas, changes, strict=False):
            r, height, width = change.shape
            back = torch.bmm(weights, delta.mT).view(len(alpha), r * height)
            change.view(r * height, width).addmm_(back.T, alpha)


def _unit(f: Tensor) -> Tensor:
    return torch.eye(f.shape[1], dtype=f.dtype, device=f.device)


def tangent(architecture: Architecture, weights: Sequence[Tensor], x: Tensor) -> Tangent:
    """Return the expansion at ``weights``, W_1 (m_1, d) to W_(L+1) (c, m_L), for ``x`` (n, d)."""
    *inner, last = weights
    each = [gradient_factors(MLP((*inner, row[None]), architecture.activation), x) for row in last]
    deltas = (torch.stack(layer, dim=2) for layer in zip(*(g.deltas for g in each), strict=True))
    alphas = each[0].alphas
    return Tangent(alphas[-1] @ last.T, alphas, tuple(deltas))


def initial_weights(
    architecture: Architecture, d: int, outputs: int, *, seed: int, like: Tensor
) -> list[Tensor]:
    """Return the weights that training starts from, of ``like``'s type and on its device."""
    size = {"depth": architecture.depth, "width": architecture.width, "outputs": outputs}
    return [w.to(like) for w in draw_weights(d, **size, generator=generator(seed, "init"))]


class Linearised(Training):
    """The expansions of networks of one `Architecture`, see `Training`.

    The gradients of all samples are kept, c times as large as the network's activations. All
    rates of a seed are trained together.
    """

    def __init__(
        self,
        architecture: Architecture,
        loss: Loss,
        members: Sequence[Member],
        train: Mapping[int, Part],
        *,
        course: Course,
    ) -> None:
        self._architecture = architecture
        self._tangents: dict[int, Tangent] = {}
        super().__init__(loss, members, train, None, course=course)

    def _begin(self, numbers: Sequence[int]) -> list[Group]:
        groups = []
        for seed in dict.fromkeys(self.members[number].seed for number in numbers):
            x = self._train[seed].x
            weights = initial_weights(
                self._architecture, x.shape[1], self._loss.outputs, seed=seed, like=x
            )
            self._tangents[seed] = tangent(self._architecture, weights, x)
            part = [number for number in numbers if self.members[number].seed == seed]
            kinds = ["change", "velocity"] if self.course.momentum else ["change"]
            none = {
                f"{kind}_{k}": w.new_zeros(len(part), *w.shape)
                for kind in kinds
                for k, w in enumerate(weights)
            }
            groups.append(Group(part, none))
        return groups

    def _descend(self, group: Group, batches: Mapping[int, Any], step: int) -> None:
        rows = {seed: batch[step] for seed, batch in batches.items()}
        here, labels = self._gather(group, self._train, rows)
        f, _ = self._forward(group, here)
        self._watch_step(group, f, labels)
        rates = torch.tensor([self.members[k].rate for k in group.numbers], dtype=torch.float64)
        pace = (-rates / f.shape[1]).to(f)[:, None, None]
        pull = hardshrink(self._loss.gradient(f, labels).mul_(pace), NEGLIGIBLE)
        velocities, changes = named(group, "velocity"), named(group, "change")
        for velocity in velocities:
            velocity.mul_(self.course.momentum)
        here.add_gradients(velocities or changes, pull)
        for change, velocity in zip(changes, velocities, strict=False):
            change += velocity

    def _gather(
        self, group: Group, parts: Mapping[int, Part], rows: Mapping[int, Any]
    ) -> tuple[Any, Tensor]:
        """Return the expansion at some of the samples of the members' only seed, and labels."""
        seed = self.members[group.numbers[0]].seed
        labels = parts[seed].y[rows[seed]]
        return self._tangents[seed].rows(rows[seed]), labels.expand(len(group.numbers), -1)

    def _forward(self, group: Group, x: Any) -> tuple[Tensor, None]:
        return x.outputs(named(group, "change")), None

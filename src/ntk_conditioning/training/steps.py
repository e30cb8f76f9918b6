"""Networks, and the steps of gradient descent that they take: each by automatic differentiation."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.optim.sgd import sgd  # of torch.optim.SGD, the first use takes a second

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.modules import Network, freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import Loss

#: Zeros around an image before it is cropped to its own size again (He et al. 2016, section 4.2).
PADDING = 4


class NetworkSpec(NamedTuple):
    """A network of an ensemble: its seed and its learning rate."""

    seed: int
    rate: float


class Split(NamedTuple):
    """Samples ``x`` (n, d) with labels ``y`` (n,) from 0 on; networks get their type and place."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Group:
    """Members that train together; ``tensors`` are what changes, with an axis for them in front."""

    numbers: Sequence[int]
    tensors: Mapping[str, Tensor]

    @cached_property
    def index(self) -> Tensor:
        """The numbers on the tensors' device, copied once: a GPU finishes its work before."""
        return torch.tensor(self.numbers, device=next(iter(self.tensors.values())).device)


@dataclass(frozen=True, eq=False)
class _Trained(Group):
    """One network, its parameters by the factor of their rates, and their momentum, if any."""

    network: Network
    parameters: Mapping[float, Sequence[Tensor]]
    momentum: Mapping[Tensor, Tensor]


def require_usable(parts: Mapping[int, Split], classes: int) -> None:
    """Raise `UserError` unless labels are of these classes."""
    for _, y in parts.values():
        if y.dtype != torch.int64 or ((y < 0) | (y >= classes)).any():
            raise UserError(f"labels are not int64 from 0 to {classes - 1}, the last class")


class Steps:
    """Networks that ``make`` makes of a generator; see `trainer.Training`, which counts epochs."""

    def __init__(
        self,
        make: Callable[[np.random.Generator], Network],
        loss: Loss,
        members: Sequence[NetworkSpec],
        train: Mapping[int, Split],
        *,
        descent: Descent,
    ) -> None:
        self.members, self.descent, self.epoch = tuple(members), descent, 0
        require_usable(train, len(loss.codes))
        self._make, self._loss, self._train = make, loss, train
        self._like = next(iter(train.values())).x
        self._n = len(self._like)
        self._batch = self._n if descent.batch_size == "all" else min(descent.batch_size, self._n)
        self.steps_per_epoch = -(-self._n // self._batch)
        self.metrics: dict[str, NDArray[np.float64]] = {}
        # On the samples' device: fetching the loss of every step would slow down a GPU.
        rates = torch.tensor([member.rate for member in members], dtype=torch.float64)
        self._rates = rates.to(self._like.device)
        self._peak_loss = torch.zeros_like(self._rates)

    def _begin(self, numbers: Sequence[int]) -> list[Any]:
        groups = []
        for number in numbers:
            network = self._make(generator(self.members[number].seed, "init")).to(self._like.device)
            network.train()  # as after an evaluation, also where training goes on
            momentum: dict[Tensor, Tensor] = {}
            if self.descent.momentum:
                momentum = {p: torch.zeros_like(p) for p in network.parameters()}
            tensors = network.state_dict(prefix="network.")
            tensors |= dict(network.named_buffers("network"))  # also those that are not persistent
            named = network.named_parameters("momentum")
            tensors |= {name: momentum[p] for name, p in named if p in momentum}
            views = {name: tensor[None] for name, tensor in tensors.items()}
            groups.append(_Trained([number], views, network, network.rate_groups(), momentum))
        return groups

    def _batches(self, seed: int) -> Sequence[Any]:
        """Return the rows of each of this epoch's steps, and if they are moved, how."""
        rows: Sequence[Any] = [slice(None)]  # of which indexing makes no copy
        if self._batch < self._n:
            order = torch.from_numpy(generator(seed, "batch", self.epoch).permutation(self._n))
            rows = torch.split(order.to(self._like.device), self._batch)
        if self.descent.augmentation == "none":
            return rows
        moves = torch.from_numpy(draw_moves(seed, self.epoch, self._n)).to(self._like.device)
        return [*zip(rows, torch.split(moves, self._batch), strict=True)]

    def _gather(self, group: Group, parts: Mapping[int, Split], rows: Mapping[int, Any]) -> Split:
        """Return some of the samples of the members' seeds, with an axis for members if several."""
        seeds = [self.members[number].seed for number in group.numbers]
        drawn = {s: Split(*(t[rows[s]] for t in parts[s])) for s in set(seeds)}
        first = drawn[seeds[0]]
        if len(seeds) == 1:
            return first
        if isinstance(rows[seeds[0]], slice) and len({id(part) for part in parts.values()}) == 1:
            return Split(*(t.expand(len(seeds), *t.shape) for t in first))  # nothing is copied
        return Split(*map(torch.stack, zip(*(drawn[seed] for seed in seeds), strict=True)))

    def _descend(self, group: _Trained, rows: Mapping[int, Any], *, last: bool) -> None:
        (number,) = group.numbers
        seed, rate = self.members[number]
        chosen, moves = rows[seed], None
        if self.descent.augmentation != "none":
            chosen, moves = chosen
        x, y = self._gather(group, self._train, {seed: chosen})
        f, _ = self._output(group, x if moves is None else crop_flip(x, moves))
        self._watch_step(group, f.detach(), y)
        gradient = self._loss.gradient(f.detach(), y) / len(y)
        # the gradient as an argument makes torch import sympy
        torch.autograd.backward((f * gradient).sum())
        if last:
            gradients = [p.grad for p in group.network.parameters() if p.grad is not None]
            squares = [gradient.square().sum(dtype=torch.float64) for gradient in gradients]
            norm = torch.stack(squares).sum().sqrt().item()
            self.metrics["gradient_norm"][self.epoch, number] = norm
        self._step(group, rate)

    @torch.no_grad()
    def _step(self, group: _Trained, rate: float) -> None:
        decays = sum(epoch < self.epoch for epoch in self.descent.decay_at)
        rate *= float(self.descent.decay_factor**decays)
        rule: dict[str, Any] = {"dampening": 0.0, "nesterov": False, "maximize": False}
        rule |= {"momentum": self.descent.momentum, "weight_decay": self.descent.weight_decay}
        for factor, parameters in group.parameters.items():
            gradients = {p: p.grad for p in parameters if p.grad is not None}
            velocities = [group.momentum.get(p) for p in gradients]
            given = [*gradients], [*gradients.values()], velocities
            sgd(*given, lr=factor * rate, foreach=True, **rule)
            for parameter in gradients:
                parameter.grad = None

    def _watch_step(self, group: Group, f: Tensor, labels: Tensor) -> None:
        """Remember the highest loss of a step; ``f`` are the outputs for its samples."""
        loss = self._loss.values(f, labels).mean(-1, dtype=torch.float64)
        self._peak_loss[group.index] = torch.maximum(self._peak_loss[group.index], loss)

    def _forward(self, group: _Trained, x: Tensor) -> tuple[Tensor, Tensor | None]:
        group.network.eval()
        f, u = self._output(group, x)
        group.network.train()
        return f, u

    def _network(self, group: _Trained, place: int, x: Tensor) -> Network:
        network = deepcopy(group.network)
        freeze_statistics(network, x)
        return network

    def _output(self, group: _Trained, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return outputs and representations, in the samples' type."""
        mixed = self.descent.mixed_precision
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=mixed):
            f, u = group.network(x)
        return f.to(self._like), None if u is None else u.to(self._like)


def draw_moves(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return the moves (n, 3) of a seed's samples in an epoch: rows, columns, and 1 to mirror."""
    rng = generator(seed, "augmentation", epoch)
    crops = rng.integers(0, 2 * PADDING + 1, size=(n, 2))
    return np.hstack([crops, rng.integers(0, 2, size=(n, 1))])


def crop_flip(images: Tensor, moves: Tensor) -> Tensor:
    """Return images (n, colours, height, width) cropped and mirrored as `draw_moves` says."""
    height, width = images.shape[-2:]
    top, left, mirrored = moves.unbind(1)
    windows = pad(images, (PADDING,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    crops = windows[torch.arange(len(images), device=images.device), :, top, left]
    moved = torch.where(mirrored[:, None, None, None] == 1, crops.flip(-1), crops)
    return moved.contiguous(memory_format=torch.channels_last)

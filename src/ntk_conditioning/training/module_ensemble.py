"""Ensembles of torch modules: each network by itself, by automatic differentiation and torch's SGD.

Order and augmentation of an epoch follow from the seed and the epoch alone, and everything else is
in the state: weights, running statistics and momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import SGD

from ntk_conditioning.networks.modules import Network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.augmentation import crop_flip, draw_moves
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.trainer import EVALUATED, Arrays, Member, Part, Training, differ

_MOMENTUM = "momentum_buffer"  # torch's name for it


@dataclass(frozen=True, eq=False)
class _Trained:
    """One network and what moves it."""

    number: int
    network: Network
    optimizer: SGD

    @property
    def numbers(self) -> Sequence[int]:
        return [self.number]


class ModuleEnsemble(Training[_Trained]):
    """Networks that ``make`` makes of a generator, see `Training`.

    Samples are vectors or, of four axes, images (n, colours, height, width). Losses are measured
    as a network would be used: normalised by running statistics, without augmentation.

    Attributes:
        metrics: also the mean cosine between the last hidden representations of different test
            samples.
    """

    METRICS = (*Training.METRICS, "test_dot_product")

    def __init__(
        self,
        make: Callable[[np.random.Generator], Network],
        loss: Loss,
        members: Sequence[Member],
        train: Mapping[int, Part],
        test: Mapping[int, Part] | None = None,
        *,
        descent: Descent,
    ) -> None:
        super().__init__(loss, members, train, test, course=descent)
        self._make, self._descent = make, descent
        self._groups = [self._begin(number) for number in range(len(members))]
        self._all_shapes = {
            name: tuple(tensor.shape) for name, tensor in _tensors(self._groups[0]).items()
        }

    def _begin(self, number: int) -> _Trained:
        """Return a member at initialisation."""
        member = self.members[number]
        network = self._make(generator(member.seed, "init")).to(self._like.device)
        optimizer = SGD(
            [
                {"params": parameters, "factor": factor, "lr": factor * member.rate}
                for factor, parameters in network.rate_groups().items()
            ],
            momentum=self._descent.momentum,
            weight_decay=self._descent.weight_decay,
        )
        if self._descent.momentum:
            # As torch has it after the first step, so that a state always has the same arrays.
            for parameter in network.parameters():
                optimizer.state[parameter][_MOMENTUM] = torch.zeros_like(parameter)
        return _Trained(number, network, optimizer)

    # --- states ---------------------------------------------------------------------------------

    def _drop_diverged(self) -> None:
        self._groups = [group for group in self._groups if self.diverged[group.number] < 0]

    def _going_on(self, state: Arrays) -> list[int]:
        # When all is done only the metrics are kept: large networks take turns, see
        # `architectures.seeds_in_turn`, and the weights of all would fill a disk.
        return [] if state["epoch"] > self.course.epochs else super()._going_on(state)

    def _weights(self) -> Arrays:
        numbers = self._going_on({"epoch": np.array(self.epoch), "diverged": self.diverged})
        kept = [_tensors(group) for group in self._groups if group.number in numbers]
        return {
            name: np.stack([tensors[name].numpy(force=True) for tensors in kept])
            if kept
            else np.empty((0, *shape))
            for name, shape in self._all_shapes.items()
        }

    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._all_shapes

    def _place(self, numbers: Sequence[int], state: Arrays) -> None:
        self._groups = [self._begin(number) for number in numbers]
        for place, group in enumerate(self._groups):
            for name, tensor in _tensors(group).items():
                tensor.copy_(torch.from_numpy(np.asarray(state[name][place])))

    # --- divergence -----------------------------------------------------------------------------

    @property
    def _evaluates_as_trained(self) -> bool:
        # Until running statistics have settled, a network that trains well may be evaluated at a
        # million times its initial loss; and bfloat16 makes outputs equal that are only close.
        running = any(True for group in self._groups for _ in group.network.buffers())
        return not (running or self._descent.mixed_precision)

    # --- one epoch of a network -----------------------------------------------------------------

    def rate_factor(self) -> float:
        """Return what the learning rates are multiplied by in this epoch."""
        decays = sum(epoch < self.epoch for epoch in self._descent.decay_at)
        return float(self._descent.decay_factor**decays)

    def _batches(self, seed: int) -> Sequence[Any]:
        """Return the samples of each of this epoch's steps, and how they are moved, if at all."""
        rows = super()._batches(seed)
        if self._descent.augmentation == "none":
            return [(row, None) for row in rows]
        moves = torch.from_numpy(draw_moves(seed, self.epoch, self._n)).to(self._like.device)
        return [*zip(rows, torch.split(moves, self._batch), strict=True)]

    def _descend(self, group: _Trained, batches: Mapping[int, Any], step: int) -> None:
        member = self.members[group.number]
        rows, moves = batches[member.seed][step]
        part = self._train[member.seed]
        x, y = part.x[rows], part.y[rows]
        if moves is not None:
            x = crop_flip(x, moves)
        for parameters in group.optimizer.param_groups:
            parameters["lr"] = parameters["factor"] * member.rate * self.rate_factor()
        f, _ = self._forward(group, x)
        self._watch_step(group, f.detach(), y)
        torch.autograd.backward(f, self._loss.gradient(f.detach(), y) / len(y))
        if step + 1 == self.steps_per_epoch:
            squares = [
                parameter.grad.square().sum(dtype=torch.float64)
                for parameter in group.network.parameters()
                if parameter.grad is not None
            ]
            norm = torch.stack(squares).sum().sqrt().item()
            self.metrics["gradient_norm"][self.epoch, group.number] = norm
        group.optimizer.step()
        group.optimizer.zero_grad()  # which frees the memory

    def _forward(self, group: _Trained, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and representations, in the samples' type."""
        with torch.autocast(
            x.device.type, dtype=torch.bfloat16, enabled=self._descent.mixed_precision
        ):
            f, u = group.network(x)
        return f.to(self._like), u.to(self._like)

    @torch.no_grad()
    def _evaluate(self, group: _Trained) -> None:
        group.network.eval()
        for name, parts in (("train", self._train), ("test", self._test)):
            if parts is None:
                continue
            part = parts[self.members[group.number].seed]
            loss = correct = squares = torch.zeros((), dtype=torch.float64)
            total = torch.zeros((), dtype=torch.float64)
            first, varies = None, torch.zeros((), dtype=torch.bool)
            for x, y in zip(*(torch.split(t, EVALUATED) for t in (part.x, part.y)), strict=True):
                f, u = self._forward(group, x)
                loss = self._loss.values(f, y).sum(dtype=torch.float64) + loss
                correct = (self._loss.predictions(f) == y).sum() + correct
                first = f[:1] if first is None else first
                varies = differ(f, first) | varies
                directions = normalize(u.double())
                total = directions.sum(0) + total
                squares = directions.square().sum() + squares
            if name == "train":
                self._varies[group.number] = varies.item()
            n = len(part.x)
            metrics = {f"{name}_loss": loss.item() / n, f"{name}_accuracy": correct.item() / n}
            if name == "test" and n > 1:
                # The sum over i and j of u_i · u_j is |Σ u_i|², of which |u_i|² are for i = j.
                pairs = total.square().sum() - squares
                metrics["test_dot_product"] = pairs.item() / (n * (n - 1))
            for metric, value in metrics.items():
                self.metrics[metric][self.epoch, group.number] = value
        group.network.train()


def _tensors(group: _Trained) -> dict[str, Tensor]:
    """Return everything of a network that training changes, by name, not copied."""
    tensors = {f"network.{name}": tensor for name, tensor in group.network.state_dict().items()}
    for name, parameter in group.network.named_parameters():
        if _MOMENTUM in group.optimizer.state[parameter]:
            tensors[f"momentum.{name}"] = group.optimizer.state[parameter][_MOMENTUM]
    return tensors

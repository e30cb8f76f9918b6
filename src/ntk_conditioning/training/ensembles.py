"""Ensembles: networks of one architecture that train side by side, one for each seed and rate.

All rates of a seed share the initialisation, the samples and their order, so that their curves can
be compared. Training can be paused after any step and taken up again from its `Ensemble.state`,
with the same numbers in the end: the order of an epoch follows from the seed and the epoch alone,
and nothing else is random.

On a CPU every network is best trained by itself, by one thread and in the same way whatever else
there is; on a GPU single small networks would wait for their launches, so that the products of all
members are computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning.activations import Activation
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import draw_weights
from ntk_conditioning.seeds import generator
from ntk_conditioning.training import layers
from ntk_conditioning.training.losses import Loss

METRICS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "gradient_norm")

#: Samples that are evaluated at once. It is fixed, for a sum's last digits depend on it.
EVALUATED = 1000

Arrays: TypeAlias = dict[str, NDArray[Any]]


class StateError(UserError):
    """A state is one of another ensemble."""


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation


@dataclass(frozen=True)
class Member:
    """A network of an ensemble: its seed and its learning rate."""

    seed: int
    rate: float


@dataclass(frozen=True, eq=False)
class Part:
    """Samples ``x`` (n, d) with labels ``y`` (n,) from 0 on; networks get their type and place."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class _Group:
    """Members whose products are computed together; ``weights`` (members, m_l, m_(l-1))."""

    numbers: Sequence[int]
    weights: Sequence[Tensor]

    @property
    def alone(self) -> bool:
        return len(self.numbers) == 1

    @property
    def matrices(self) -> Sequence[Tensor]:
        """The weights, of a single member without the axis for members."""
        return [w[0] for w in self.weights] if self.alone else self.weights


class Ensemble:
    """Networks in training.

    ``train`` has the samples of every seed, all equally many, and ``test`` those that are only
    evaluated. A step takes ``batch`` samples, or all of them (``"all"``: gradient descent); an
    epoch's last step takes those that are left. Losses are means over samples. ``together`` says
    whether the products of all members are computed together.

    Attributes:
        members: the networks, by number.
        epoch: the epoch that is to be finished next; 0 is the evaluation before any training.
        metrics: by the names in `METRICS`, arrays (epochs + 1, members) with NaN where nothing was
            measured: loss and accuracy over all samples at an epoch's end, and the norm of the
            gradient of the epoch's last batch before its step.
        diverged: for every member the epoch after which its loss was found not to be finite, or
            -1. Such a member is not trained any more.
    """

    def __init__(
        self,
        architecture: Architecture,
        loss: Loss,
        members: Sequence[Member],
        train: Mapping[int, Part],
        test: Mapping[int, Part] | None = None,
        *,
        epochs: int,
        batch: int | Literal["all"],
        evaluate_every: int = 1,
        together: bool = False,
    ) -> None:
        self.members = tuple(members)
        self.epoch = 0
        self.metrics = {name: np.full((epochs + 1, len(members)), np.nan) for name in METRICS}
        self.diverged = np.full(len(members), -1)
        self._activation, self._loss = architecture.activation, loss
        self._train, self._test = train, test
        self._epochs, self._every, self._together = epochs, evaluate_every, together
        like = next(iter(train.values())).x
        self._n, d = like.shape
        self._device = like.device
        self._batch = self._n if batch == "all" else min(batch, self._n)
        self._steps = np.zeros(len(members), dtype=np.int64)  # that are done in this epoch
        drawn = {
            seed: [
                weight.to(like)
                for weight in draw_weights(
                    d,
                    depth=architecture.depth,
                    width=architecture.width,
                    outputs=loss.outputs,
                    generator=generator(seed, "init"),
                )
            ]
            for seed in dict.fromkeys(member.seed for member in members)
        }
        weights = zip(*(drawn[member.seed] for member in members), strict=True)
        self._form_groups(range(len(members)), [torch.stack(layer) for layer in weights])

    @property
    def steps_per_epoch(self) -> int:
        """The steps of one epoch."""
        return -(-self._n // self._batch)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or no member is left to train."""
        return self.epoch > self._epochs or not self._groups

    def advance(
        self,
        paused: Callable[[], bool] = lambda: False,
        spread: Callable[..., Iterable[bool]] = map,
    ) -> bool:
        """Finish the epoch and return True, or False soon after ``paused`` says so.

        ``spread`` maps a function over parts of the ensemble that do not depend on each other:
        `map`, or that of a pool of threads.
        """
        if not all([*spread(lambda group: self._finish_epoch(group, paused), self._groups)]):
            return False
        if self._evaluates:
            lost = ~np.isfinite(self.metrics["train_loss"][self.epoch]) & (self.diverged < 0)
            self.diverged[lost] = self.epoch
            for values in self.metrics.values():
                values[self.epoch, lost] = np.nan
            if lost.any():
                self._form_groups(*self._active())
        self._steps[:] = 0
        self.epoch += 1
        return True

    def state(self) -> Arrays:
        """Return all that training goes on from; the weights are those of members not diverged."""
        _, weights = self._active()
        return {
            "epoch": np.array(self.epoch),
            "steps": self._steps.copy(),
            "diverged": self.diverged.copy(),
            **{name: values.copy() for name, values in self.metrics.items()},
            **{f"weights_{k}": w.numpy(force=True) for k, w in enumerate(weights)},
        }

    def restore(self, state: Arrays) -> None:
        """Go on from the `state` of an ensemble that was made in the same way.

        Raises:
            StateError: if that one had other members, epochs or layers.
        """
        members, like = self._steps.shape, self._empty
        expected: dict[str, tuple[int, ...]] = {"epoch": (), "steps": members, "diverged": members}
        expected |= {name: values.shape for name, values in self.metrics.items()}
        _require(state, expected)
        active = np.flatnonzero(state["diverged"] < 0)
        expected |= {f"weights_{k}": (len(active), *w.shape[1:]) for k, w in enumerate(like)}
        _require(state, expected)
        for name in state.keys() - expected.keys():
            raise StateError(f"a state of another ensemble: this one has no {name}")
        self.epoch = int(state["epoch"])
        self.diverged = state["diverged"].copy()
        self.metrics = {name: state[name].copy() for name in METRICS}
        self._steps = state["steps"].copy()
        weights = [torch.tensor(state[f"weights_{k}"]).to(w) for k, w in enumerate(like)]
        self._form_groups(active.tolist(), weights)

    # --- groups ---------------------------------------------------------------------------------

    def _form_groups(self, numbers: Sequence[int], weights: Sequence[Tensor]) -> None:
        """Group members; ``weights`` have an axis for them in front."""
        self._empty = [w[:0] for w in weights]
        if self._together:
            self._groups = [_Group(numbers, weights)] if len(numbers) else []
            return
        # Copies, so that every matrix begins where it would if the member were the only one: a
        # BLAS may round differently by a matrix's place in memory.
        self._groups = [
            _Group([number], [w[k : k + 1].clone() for w in weights])
            for k, number in enumerate(numbers)
        ]

    def _active(self) -> tuple[list[int], list[Tensor]]:
        """Return the members that have not diverged, and their weights."""
        numbers = [number for group in self._groups for number in group.numbers]
        kept = [place for place, number in enumerate(numbers) if self.diverged[number] < 0]
        layered = zip(self._empty, *(group.weights for group in self._groups), strict=True)
        return [numbers[place] for place in kept], [torch.cat(layer)[kept] for layer in layered]

    # --- one epoch of a group -------------------------------------------------------------------

    @property
    def _evaluates(self) -> bool:
        return self.epoch % self._every == 0 or self.epoch == self._epochs

    def _finish_epoch(self, group: _Group, paused: Callable[[], bool]) -> bool:
        if self.epoch:
            seeds = {self.members[number].seed for number in group.numbers}
            batches = {seed: self._batches(seed) for seed in seeds}
            for step in range(self._steps[group.numbers[0]], self.steps_per_epoch):
                if paused():
                    return False
                self._descend(group, batches, step)
                self._steps[group.numbers] = step + 1
        if self._evaluates:
            self._evaluate(group)
        return True

    def _batches(self, seed: int) -> Sequence[Tensor | slice]:
        """Return the samples of each of this epoch's steps."""
        if self._batch == self._n:
            return [slice(None)]  # of which indexing makes no copy
        order = torch.from_numpy(generator(seed, "batch", self.epoch).permutation(self._n))
        return torch.split(order.to(self._device), self._batch)

    def _descend(
        self, group: _Group, batches: Mapping[int, Sequence[Tensor | slice]], step: int
    ) -> None:
        x, y = self._gather(group, self._train, {s: own[step] for s, own in batches.items()})
        rates = torch.tensor([self.members[k].rate for k in group.numbers], dtype=torch.float64)
        pace = (-rates / x.shape[-2]).to(x)
        if not group.alone:
            pace = pace[:, None, None]
        last = step + 1 == self.steps_per_epoch
        moved = layers.descend(
            self._activation,
            group.matrices,
            x,
            lambda f: self._loss.gradient(f, y).mul_(pace),
            measure=last,
        )
        if moved is not None:
            norms = np.atleast_1d(moved.numpy(force=True)) / rates.numpy()
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _evaluate(self, group: _Group) -> None:
        for name, parts in (("train", self._train), ("test", self._test)):
            if parts is None:
                continue
            n = len(next(iter(parts.values())).x)
            loss = correct = torch.zeros((), dtype=torch.float64)
            for top in range(0, n, EVALUATED):
                rows = dict.fromkeys(parts, slice(top, top + EVALUATED))
                x, y = self._gather(group, parts, rows)
                f = layers.outputs(self._activation, group.matrices, x)
                loss = self._loss.values(f, y).sum(-1, dtype=torch.float64) + loss
                correct = (self._loss.predictions(f) == y).sum(-1) + correct
            for metric, total in (("loss", loss), ("accuracy", correct)):
                values = total.numpy(force=True) / n
                self.metrics[f"{name}_{metric}"][self.epoch, group.numbers] = values

    def _gather(
        self, group: _Group, parts: Mapping[int, Part], rows: Mapping[int, Any]
    ) -> tuple[Tensor, Tensor]:
        """Return some of the samples of the members' seeds, with an axis for members if several."""
        seeds = [self.members[number].seed for number in group.numbers]
        x = {seed: parts[seed].x[rows[seed]] for seed in seeds}
        y = {seed: parts[seed].y[rows[seed]] for seed in seeds}
        if group.alone:
            return x[seeds[0]], y[seeds[0]]
        return torch.stack([x[seed] for seed in seeds]), torch.stack([y[seed] for seed in seeds])


def _require(state: Arrays, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `StateError` unless a state has arrays of the expected shapes."""
    for name, shape in expected.items():
        if name not in state or state[name].shape != shape:
            raise StateError(f"a state of another ensemble: its {name} is not {shape}")

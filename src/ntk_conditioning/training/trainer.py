"""Trainings of networks side by side, one for each seed and rate, which may pause after any step.

All rates of a seed share the initialisation, the samples and their order, which follows from the
seed and the epoch alone: from its `Training.state` a training goes on to the same numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from ntk_conditioning.networks.modules import Network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent, measured_epochs
from ntk_conditioning.training.kernels_along import ALONG, kernel_numbers, module_kernel, sharpness
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.steps import Group, Steps, require_usable
from ntk_conditioning.training.steps import NetworkSpec as NetworkSpec
from ntk_conditioning.training.steps import Split as Split

#: Samples that are evaluated at once. It is fixed, for a sum's last digits depend on it.
EVALUATED = 1000

#: A network has diverged once its loss exceeds this many times the larger of its initial loss and
#: the loss of zero outputs (which some networks begin below). The loss of a step may rise up to 64
#: times in networks that then learn 99 % of their samples; losses that explode pass 1900 times.
GROWTH = 1000

#: `kernels.modules` watches torch's random numbers, which threads share.
_ONE_AT_A_TIME = Lock()

#: Outputs that differ by no more roundings are constant: a row's rounding depends on its place.
ROUNDINGS = 8


class Training(Steps):
    """Networks in training, which ``make`` makes of a generator.

    ``train`` has the samples of every seed, all equally many, and ``test`` those that are only
    evaluated: vectors or images (n, colours, height, width). An epoch's last step takes the samples
    that are left. Losses are means over samples, of networks as they would be used: normalised by
    running statistics, without augmentation. With ``along``, numbers of samples and of epochs,
    kernels are measured on so many samples after at most so many epochs, see `kernels_along`.

    Attributes:
        epoch: the epoch that is to be finished next; 0 is the evaluation before any training.
        measured: the epochs after which kernels are measured, on ``block_size`` samples.
        metrics: arrays (epochs + 1, members) by the names in ``METRICS``, with ``along`` also in
            `ALONG`, NaN where nothing was measured: loss and accuracy over all samples at an
            epoch's end; the norm of the gradient of its last batch, before the step; and the mean
            cosine between last hidden representations of test samples, if the network returns them.
        diverged: for every member the first evaluated epoch by which it had diverged, or -1. It is
            not trained any more. A member diverges if its loss, over all samples or over those of
            any step, is not finite or exceeds the limit of `GROWTH`, or if its outputs become the
            same for all samples. With running statistics or in mixed precision only the losses of
            steps count, and what is not finite.

    Raises `UserError` for labels that are no classes.
    """

    METRICS = (
        *("train_loss", "train_accuracy", "test_loss", "test_accuracy", "gradient_norm"),
        "test_dot_product",
    )

    def __init__(
        self,
        make: Callable[[np.random.Generator], Network],
        loss: Loss,
        members: Sequence[NetworkSpec],
        train: Mapping[int, Split],
        test: Mapping[int, Split] | None = None,
        *,
        descent: Descent,
        along: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(make, loss, members, train, descent=descent)
        require_usable(test or {}, len(loss.codes))
        self._test, self._evaluated = test, {*descent.evaluated}
        self.block_size = min(self._n, along[0]) if along else 0
        self.measured = measured_epochs(descent.evaluated, along[1]) if along else []
        self._initial_kernels: dict[int, NDArray[np.float64]] = {}  # by seed
        shape, names = (descent.epochs + 1, len(members)), self.METRICS + (ALONG if along else ())
        self.metrics = {name: np.full(shape, np.nan) for name in names}
        self.diverged = np.full(len(members), -1)
        self._steps = np.zeros(len(members), dtype=np.int64)  # that are done in this epoch
        zeros = self._like.new_zeros(self._n, loss.outputs)
        zero_losses = [loss.values(zeros, train[member.seed].y) for member in members]
        self._zero_loss = np.array([v.mean(dtype=torch.float64).item() for v in zero_losses])
        self._varies = np.zeros(len(members), dtype=bool)  # outputs, as last evaluated
        self._varied = self._varies.copy()  # at any evaluation
        self._groups = self._begin(range(len(members)))

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or no member is left to train."""
        return self.epoch > self.descent.epochs or not self._groups

    def advance(
        self, paused: Callable[[], bool] = lambda: False, workers: Executor | None = None
    ) -> bool:
        """Finish the epoch and return True, or False soon after ``paused`` says so.

        The threads of ``workers`` (`threads.pool`) share the groups.
        """
        if not all(self._map(partial(self._finish_epoch, paused), workers)):
            return False
        if self.epoch in self._evaluated:
            self._drop_diverged()
        if self.epoch in self.measured:
            self._map(self._measure, workers)
        self._steps[:] = 0
        self.epoch += 1
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that training goes on from; the networks are those of members not diverged."""
        names = self._groups[0].tensors if self._groups else ()
        networks = {
            name: np.concatenate([g.tensors[name].numpy(force=True) for g in self._groups])
            for name in names
        }
        progress = {
            "epoch": np.array(self.epoch),
            "steps": self._steps,
            "diverged": self.diverged,
            "peak_loss": self._peak_loss.numpy(force=True),
            "varied": self._varied,
        }
        progress = {name: array.copy() for name, array in (progress | self.metrics).items()}
        return progress | networks

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the `state` of an ensemble that was made in the same way."""
        active = [int(number) for number in np.flatnonzero(state["diverged"] < 0)]
        self.epoch = int(state["epoch"])
        self._steps, self.diverged = state["steps"].copy(), state["diverged"].copy()
        self._peak_loss = torch.tensor(state["peak_loss"], device=self._like.device)
        self._varied = state["varied"].copy()
        self.metrics = {name: state[name].copy() for name in self.metrics}
        self._groups = self._begin(active)
        for group in self._groups:
            places = np.searchsorted(active, group.numbers)
            for name, tensor in group.tensors.items():
                tensor.copy_(torch.from_numpy(state[name][places]))

    def _map(self, function: Callable[[Any], Any], workers: Executor | None) -> list[Any]:
        """Return a function's values for all groups."""
        if workers and len(self._groups) > 1:
            return [*workers.map(function, self._groups)]
        return [*map(function, self._groups)]

    def _evaluates_as_trained(self) -> bool:
        """Return whether evaluations show the network as its steps see it, in full precision."""
        # Until running statistics have settled, a network that trains well may be evaluated at a
        # million times its initial loss; and bfloat16 makes outputs equal that are only close.
        running = any(True for group in self._groups for _ in group.network.buffers())
        return not (running or self.descent.mixed_precision)

    def _drop_diverged(self) -> None:
        """Flag members that have diverged by the evaluated epoch, and train them no more."""
        losses = self.metrics["train_loss"]
        loss, peak = losses[self.epoch], self._peak_loss.numpy(force=True)
        limit = GROWTH * np.maximum(losses[0], self._zero_loss)
        lost = ~(np.isfinite(loss) & np.isfinite(peak)) | (peak > limit)
        if self._evaluates_as_trained():
            lost |= (loss > limit) | (self._varied & ~self._varies)
        self._varied |= self._varies
        lost &= self.diverged < 0
        self.diverged[lost] = self.epoch
        for values in self.metrics.values():
            values[self.epoch, lost] = np.nan
        groups, self._groups = self._groups, []
        for group in groups:
            active = [k for k, number in enumerate(group.numbers) if self.diverged[number] < 0]
            if len(active) < len(group.numbers):
                tensors = {name: tensor[active] for name, tensor in group.tensors.items()}
                group = Group([group.numbers[k] for k in active], tensors)
            if active:
                self._groups.append(group)

    def _finish_epoch(self, paused: Callable[[], bool], group: Any) -> bool:
        if self.epoch:
            seeds = {self.members[number].seed for number in group.numbers}
            batches = {seed: self._batches(seed) for seed in seeds}
            for step in range(self._steps[group.numbers[0]], self.steps_per_epoch):
                if paused():
                    return False
                rows = {seed: batch[step] for seed, batch in batches.items()}
                self._descend(group, rows, last=step + 1 == self.steps_per_epoch)
                self._steps[group.numbers] = step + 1
        if self.epoch in self._evaluated:
            for name, parts in (("train", self._train), ("test", self._test)):
                if parts is not None:
                    self._evaluate(group, name, parts)
        return True

    @torch.no_grad()
    def _evaluate(self, group: Any, name: str, parts: Mapping[int, Split]) -> None:
        n, found, sums, squares = len(next(iter(parts.values())).x), [], [], []
        for top in range(0, n, EVALUATED):
            x, y = self._gather(group, parts, dict.fromkeys(parts, slice(top, top + EVALUATED)))
            f, u = self._forward(group, x)
            found.append((y, f))
            if name == "test" and u is not None:
                u = normalize(u.double())
                sums.append(u.sum(0))
                squares.append(u.square().sum())
        labels, outputs = zip(*found, strict=True)
        y, f = torch.cat(labels, -1), torch.cat(outputs, -2)
        right = self._loss.predictions(f) == y
        metrics = {
            f"{name}_loss": self._loss.values(f, y).mean(-1, dtype=torch.float64),
            f"{name}_accuracy": right.mean(-1, dtype=torch.float64),
        }
        if n > 1 and sums:
            # The sum over i and j of u_i · u_j is |Σ u_i|², of which |u_i|² are for i = j.
            pairs = torch.stack(sums).sum(0).square().sum() - torch.stack(squares).sum()
            metrics["test_dot_product"] = pairs / (n * (n - 1))
        for metric, values in metrics.items():
            self.metrics[metric][self.epoch, group.numbers] = values.numpy(force=True)
        if name == "train":
            first = f[..., :1, :]
            tolerance = ROUNDINGS * torch.finfo(f.dtype).eps * first.abs().amax((-2, -1))
            varies = (f - first).abs().amax((-2, -1)) > tolerance
            self._varies[group.numbers] = varies.numpy(force=True)

    def _measure(self, group: Any) -> None:
        """Measure kernels and sharpness of a group's members after this epoch."""
        for place, number in enumerate(group.numbers):
            seed = self.members[number].seed
            rows = torch.from_numpy(generator(seed, "blocks").permutation(self._n))
            x, y = (t[rows[: self.block_size].to(t.device)] for t in self._train[seed])
            with _ONE_AT_A_TIME:
                if seed not in self._initial_kernels:  # also where a state goes on
                    (start,) = self._begin([number])
                    initial = module_kernel(self._network(start, 0, x), x)
                    self._initial_kernels[seed] = initial.numpy(force=True)
                network = self._network(group, place, x)
                k = module_kernel(network, x).numpy(force=True)
            codes = self._loss.codes[y].numpy(force=True).astype(np.float64)
            numbers = kernel_numbers(k, self._initial_kernels[seed], codes)
            rates = network.rate_groups().items()
            factors: dict[Tensor, float] = {p: factor for factor, some in rates for p in some}
            with torch.enable_grad():
                loss = self._loss.values(network(x)[0], y).mean()
            rng = generator(seed, "lanczos")
            numbers["sharpness"] = sharpness(loss, factors, start=rng)
            for name, value in numbers.items():
                self.metrics[name][self.epoch, number] = value

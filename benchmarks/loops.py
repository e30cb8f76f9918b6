"""Ways of training the same networks: ours, a plain loop in PyTorch, and the products alone."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.problem import require_near
from benchmarks.timing import Timed
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.threads import limit_threads
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import NetworkSpec, Split

CLASSES = 10
RATES = tuple(2.0 ** (k / 2) for k in range(-4, 4))

# What weights may differ by, relative to how far they have moved from where they began. A few steps
# move them by a thousandth, of which a rounding of float32 is 1e-4 and more, and one sign that it
# changes moves a row. A rate or a factor that is wrong by some hundredths is found.
SAME = 2e-2

Weights: TypeAlias = list[NDArray[np.float32]]
"""Weights of all members by layer, (members, m_l, m_(l-1)) each."""


@dataclass(frozen=True)
class Networks:
    """Networks of ReLU, one for each seed and rate, that learn ten classes drawn at random.

    Samples are Gaussian, in float32 and of a norm of about 1, so that all these rates train.
    """

    depth: int
    seeds: int = 1
    rates: tuple[float, ...] = RATES
    n: int = 5000
    batch: int = 500
    d: int = 784
    width: int = 512

    def __str__(self) -> str:
        return f"{len(self.members)} networks of depth {self.depth}"

    @property
    def members(self) -> list[NetworkSpec]:
        return [NetworkSpec(seed, rate) for seed in range(1, 1 + self.seeds) for rate in self.rates]

    @property
    def activation(self) -> Activation:
        return activations.get("relu")

    @property
    def sizes(self) -> list[int]:
        """The columns of the samples, of every hidden layer and of the outputs."""
        return [self.d, *[self.width] * self.depth, CLASSES]

    @property
    def steps(self) -> int:
        """The steps of an epoch, of all networks."""
        return len(self.members) * (self.n // self.batch)

    def samples(self, device: torch.device | str = "cpu") -> Split:
        """The samples (n, d) and their labels (n,)."""
        stream = generator(0, "data")
        x = stream.standard_normal((self.n, self.d)) / math.sqrt(self.d)
        y = stream.integers(CLASSES, size=self.n)
        return Split(torch.from_numpy(x).to(device, torch.float32), torch.from_numpy(y).to(device))

    def ensemble(
        self,
        *,
        epochs: int,
        together: bool = False,
        device: torch.device | str = "cpu",
    ) -> Ensemble:
        """Our ensemble, before any training; it is evaluated at the ends only."""
        codes = {"outputs": "classes", "classes": CLASSES}
        codes |= {"dtype": torch.float32, "device": device}
        size = {"d": self.d, "depth": self.depth, "width": self.width}
        kind = {"activation": self.activation, "outputs": CLASSES, "dtype": torch.float32}
        return Ensemble(
            partial(make_network, "mlp", **size, **kind),
            make_loss("cross_entropy", **codes),
            self.members,
            dict.fromkeys(range(1, 1 + self.seeds), self.samples(device)),
            descent=Descent(epochs=epochs, batch_size=self.batch, evaluate_every=epochs),
            together=together,
        )


def weights(ensemble: Ensemble) -> Weights:
    """Return the weights of an ensemble."""
    state = ensemble.state()
    return [state[name] for name in state if name.startswith("network")]


def trained_weights(
    problem: Networks, *, together: bool, device: torch.device | str = "cpu"
) -> Weights:
    """Return the weights of our ensemble after an epoch."""
    ensemble = problem.ensemble(epochs=1, together=together, device=device)
    while not ensemble.finished:
        ensemble.advance()
    return weights(ensemble)


class Layer(nn.Module):
    """A linear layer of the NTK parameterisation: the factor is no part of the weights."""

    def __init__(self, weight: Tensor, factor: float) -> None:
        super().__init__()
        self.weight, self._factor = nn.Parameter(weight.clone()), factor

    def forward(self, a: Tensor) -> Tensor:
        """Return the layer's outputs (n, m) for ``a`` (n, k)."""
        z = nn.functional.linear(a, self.weight)
        return z if self._factor == 1 else self._factor * z


class PlainLoop:
    """One network after another by modules, automatic differentiation and an optimiser.

    Batches are gathered as rows of a tensor or, with ``loader``, by torch's `DataLoader`.
    """

    def __init__(
        self, problem: Networks, start: Weights, *, loader: bool = False, device: str = "cpu"
    ) -> None:
        self._loader, self._batch, self._epoch = loader, problem.batch, 1
        self._samples = problem.samples(device)
        self._trained = []
        for number, member in enumerate(problem.members):
            first, *others = (torch.from_numpy(layer[number]) for layer in start)
            modules: list[nn.Module] = [Layer(first, 1)]
            for weight in others:
                factor = problem.activation.gain / math.sqrt(weight.shape[1])
                modules += [nn.ReLU(), Layer(weight, factor)]
            network = nn.Sequential(*modules).to(device)
            optimizer = torch.optim.SGD(network.parameters(), lr=member.rate)
            self._trained.append((member.seed, network, optimizer))

    def epoch(self) -> None:
        """Train all networks for an epoch."""
        loss = nn.CrossEntropyLoss()
        for seed, network, optimizer in self._trained:
            for x, y in self._batches(seed):
                optimizer.zero_grad()
                loss(network(x), y).backward()
                optimizer.step()
        self._epoch += 1

    def _batches(self, seed: int) -> Iterable[Any]:
        x, y = self._samples
        order = generator(seed, "batch", self._epoch).permutation(len(x))
        if self._loader:
            return DataLoader(TensorDataset(x, y), self._batch, sampler=order.tolist())
        batches = torch.from_numpy(order).to(x.device).split(self._batch)
        return ((x[rows], y[rows]) for rows in batches)

    def trained_weights(self) -> Weights:
        """Return the weights of all networks after an epoch."""
        self.epoch()
        networks = (network.parameters() for _, network, _ in self._trained)
        by_layer = zip(*networks, strict=True)
        return [np.stack([w.numpy(force=True) for w in layer]) for layer in by_layer]


class Products:
    """The matrix products of an epoch, of stacks of all networks' matrices, and nothing else."""

    def __init__(self, problem: Networks, *, device: str) -> None:
        sizes, n, stack = problem.sizes, problem.batch, len(problem.members)
        self._repeats = problem.n // n

        def drawn(rows: int, columns: int) -> Tensor:
            return torch.randn(stack, rows, columns, device=device)

        matrices = [drawn(m, k) for k, m in pairwise(sizes)]
        a, back, out = ([drawn(n, size) for size in sizes] for _ in range(3))
        forward = [(a[layer], w.mT, out[layer + 1]) for layer, w in enumerate(matrices)]
        backward = []
        for layer, w in reversed(list(enumerate(matrices))):
            backward.append((back[layer + 1].mT, a[layer], torch.empty_like(w)))
            if layer:
                backward.append((back[layer + 1], w, torch.empty_like(back[layer])))
        self._operands = forward + backward

    @property
    def flops(self) -> int:
        """The flops of one step of all networks."""
        return sum(2 * a.numel() * b.shape[-1] for a, b, _ in self._operands)

    def epoch(self) -> None:
        """Compute all of them."""
        for _ in range(self._repeats):
            for a, b, out in self._operands:
                torch.matmul(a, b, out=out)


def require_same_weights(
    name: str, found: Weights, reference: Weights, start: Weights, same: float = SAME
) -> float:
    """Return the largest difference of a network's weights, relative to how far they have moved.

    Raises:
        DifferentResultError: if it is more than ``same``, by default the rounding of float32.
    """
    apart, moved = (
        sum(np.square(a.astype(np.float64) - b).sum((1, 2)) for a, b in zip(x, y, strict=True))
        for x, y in ((found, reference), (reference, start))
    )
    difference = float(np.sqrt(np.max(apart / moved)))
    require_near(f"{name}: weights, in parts of their move,", difference, same)
    return difference


@contextmanager
def blas_threads(number: int) -> Iterator[None]:
    """Let linear algebra use so many threads."""
    before = torch.get_num_threads()
    limit_threads(number)
    try:
        yield
    finally:
        limit_threads(before)


def with_threads(number: int, timed: Timed) -> Timed:
    """Return a call that lets linear algebra use so many threads; switching is not counted."""

    def limited() -> float:
        with blas_threads(number):
            return timed()

    return limited

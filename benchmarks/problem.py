"""The networks and the data that are measured, their least cost, and equality of results."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks import networks
from benchmarks.settings import Settings
from benchmarks.timing import spread, stopwatch
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator

# float64: some thousand roundings of the largest entry. float32 cannot be compared by entries: one
# of the n · width · depth pre-activations that changes its sign moves a row of the kernel by 1e-2.
SAME_ENTRIES = 1e-12
SAME_LAMBDA_MAX = 1e-4
SAME_KAPPA = 2e-2


class DifferentResultError(UserError):
    """Two methods do not compute the same, so that their times cannot be compared."""


def require_near(what: str, difference: float, most: float) -> None:
    """Raise `DifferentResultError` unless a difference, named by ``what``, is small enough."""
    if not difference <= most:  # nor if it is not a number
        raise DifferentResultError(
            f"{what} differ by {difference:.1e}, more than {most:.0e}, so times are not compared"
        )


@dataclass(frozen=True)
class Problem:
    """A network of ReLU on Gaussian data (n, d), drawn from seed 0."""

    n: int
    depth: int
    dtype: str = "float64"
    d: int = 784
    width: int = 512

    def __str__(self) -> str:
        return f"n {self.n:,}, d {self.d}, width {self.width}, depth {self.depth}, {self.dtype}"

    def network(self, device: torch.device | str = "cpu") -> MLP:
        return init_mlp(
            self.d,
            depth=self.depth,
            width=self.width,
            activation="relu",
            generator=generator(0, "init"),
            dtype=getattr(torch, self.dtype),
            device=device,
        )

    def data(self, device: torch.device | str = "cpu") -> Tensor:
        """The samples (n, d)."""
        x = generator(0, "data").standard_normal((self.n, self.d))
        return torch.from_numpy(x).to(device=device, dtype=getattr(torch, self.dtype))

    def save(self, path: Path) -> None:
        """Write weights, factors after the layers and data for another process."""
        mlp = self.network()
        weights = {f"weight_{k}": w.numpy() for k, w in enumerate(mlp.weights, start=1)}
        scales = np.array([mlp.scale(layer) for layer in range(1, self.depth + 1)])
        np.savez(path, x=self.data().numpy(), scales=scales, **weights)

    @property
    def flops(self) -> float:
        """The flops that no method can avoid: both passes, and half of each n × n product."""
        n, d, width, depth = self.n, self.d, self.width, self.depth
        passes = 2 * n * (d * width + 2 * (depth - 1) * width**2)
        return passes + n**2 * (d + 2 * depth * width)

    @property
    def kernel_bytes(self) -> int:
        """The size of the kernel."""
        return self.n**2 * np.dtype(self.dtype).itemsize


#: What the networks of `networks.NETWORKS` are called in tables.
TITLES = {"cnn": "CNN", "resnet20": "ResNet-20", "vit": "ViT"}


@dataclass(frozen=True)
class ModuleProblem:
    """One of `networks.NETWORKS` on ``n`` images."""

    name: str
    n: int
    dtype: str = "float64"

    def __str__(self) -> str:
        return f"{TITLES[self.name]}, n {self.n:,}, {self.dtype}"

    def network(self) -> nn.Module:
        return networks.build(self.name, getattr(torch, self.dtype))

    def data(self) -> Tensor:
        """The images (n, 3, 32, 32)."""
        return networks.images(self.n, getattr(torch, self.dtype))

    def save(self, path: Path) -> None:
        """Write the network's name, its parameters and the images for another process."""
        parameters = {name: p.detach().numpy() for name, p in self.network().named_parameters()}
        np.savez(path, network=self.name, x=self.data().numpy(), **parameters)


def gemm(dtype: str, *, size: int, device: torch.device | str = "cpu") -> Callable[[], object]:
    """Return the product of two square matrices, into memory that it has already."""
    a = torch.randn(size, size, dtype=getattr(torch, dtype), device=device)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, a, out=out)


def gemm_rates(settings: Settings) -> dict[str, dict[str, float]]:
    """Return the rates of a square product in this process, in GFLOP/s, by type."""
    rates, size = {}, gemm_size(settings)
    for dtype in ("float64", "float32"):
        timed = stopwatch(gemm(dtype, size=size))
        timed()
        rates[dtype] = spread(2e-9 * size**3 / timed() for _ in range(settings.rounds))
    return rates


def gemm_size(settings: Settings) -> int:
    """Return the side of the square matrices whose product is the measure of speed."""
    return 256 if settings.quick else 4096


def require_same_kernel(
    name: str, k: NDArray[np.floating], reference: NDArray[np.floating]
) -> dict[str, float]:
    """Return how far two kernels are apart, by entries in float64 and by spectra in float32.

    Raises:
        DifferentResultError: if that is more than rounding.
    """
    if k.shape != reference.shape or k.dtype != reference.dtype:
        raise DifferentResultError(
            f"{name} returns {k.dtype} {k.shape}, not {reference.dtype} {reference.shape}"
        )
    if k.dtype == np.float64:
        entries = float(np.abs(k - reference).max() / np.abs(reference).max())
        require_near(f"{name}: entries", entries, SAME_ENTRIES)
        return {"entries": entries}
    # The rounding of a float32 kernel reaches any eigenvalue, but no more of it than of the kernel.
    ours, theirs = (np.linalg.eigvalsh((m + m.T).astype(np.float64) / 2) for m in (reference, k))
    lambda_max = float(abs(theirs[-1] / ours[-1] - 1))
    kappa = float(abs(theirs[-1] / theirs[0] * (ours[0] / ours[-1]) - 1))
    require_near(f"{name}: values of lambda_max", lambda_max, SAME_LAMBDA_MAX)
    require_near(f"{name}: values of kappa", kappa, SAME_KAPPA)
    return {"lambda_max": lambda_max, "kappa": kappa}

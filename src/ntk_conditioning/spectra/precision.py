"""How far float arithmetic resolves kappa: estimates against references in many digits.

References take float64 samples and weights as exact; recipes in float32 round them first.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import mpmath
import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import eigvalsh

from ntk_conditioning.kernels import empirical, infinite
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import (
    Conditioning,
    KernelError,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

Array = NDArray[np.float64]
Estimate = tuple[float, float, bool, float]  # λ_min, λ_max, whether resolved, and floor_kappa

#: Decimal digits of the references: the cosine of an angle of 1e-15 differs from 1 by 1e-30.
DIGITS = 60
#: Functions of NumPy, for arrays of numbers of mpmath, and their names there.
FUNCTIONS = {"array": "mpf", "sqrt": "sqrt", "sin": "sin", "arccos": "acos"}
MPMATH = SimpleNamespace(
    pi=mpmath.pi,
    **{name: np.frompyfunc(getattr(mpmath, f), 1, 1) for name, f in FUNCTIONS.items()},
)
#: Activations of networks, and whether their width is finite; the first at depth 0, too.
KINDS = (("linear", True), ("relu", True), ("relu", False))


@dataclass(frozen=True, eq=False)
class Problem:
    """A kernel of samples ``x`` (n, d), of which the first two are ``delta`` apart.

    It is that of ``mlp``, or of the infinite ReLU network. The smaller ``delta``, the larger kappa.
    """

    activation: str
    depth: int
    seed: int
    delta: float
    x: Array
    mlp: MLP | None

    @property
    def kernel(self) -> str:
        """The kernel's name in tables."""
        return "infinite_ntk" if self.mlp is None else "empirical_ntk"


class Measurement(NamedTuple):
    """What a recipe makes of a problem, named as columns of the table ``precision``.

    ``ratio`` is its λ_max / λ_min and ``resolved`` whether it reports that, ``floor_kappa`` the
    kappa from which on its precision resolves none.
    """

    method: str
    kappa_reference: float
    ratio: float
    resolved: bool
    floor_kappa: float
    relative_error: float


def problems(
    *, samples: int, dim: int, width: int, depths: Sequence[int], seeds: Sequence[int], points: int
) -> Iterator[Problem]:
    """Yield kernels: the Gram matrix (at depth 0), linear, ReLU and infinitely wide ReLU networks.

    Each comes with ``points`` distances of the pair, logarithmically spaced, from 1 down. Problems
    of one seed share all samples but the pair's second, and the first layers.
    """
    for seed, depth in product(seeds, depths):
        rng = generator(seed, "data")
        x = rng.standard_normal((samples, dim)) / math.sqrt(dim)
        direction = rng.standard_normal(dim) / math.sqrt(dim)
        for activation, finite in KINDS if depth else KINDS[:1]:
            mlp = None
            if finite:
                init = generator(seed, "init")
                mlp = init_mlp(dim, depth=depth, width=width, activation=activation, generator=init)
            # There kappa has passed 1e17. It grows as delta^-2 in finite networks, as soon as no
            # unit tells the pair apart, and as delta^-1 at infinite width.
            for delta in np.geomspace(1, 1e-9 if finite else 1e-15, points).tolist():
                near = x.copy()
                near[1] = x[0] + delta * direction
                yield Problem(activation, depth, seed, delta, near, mlp)


def measure(problem: Problem) -> list[Measurement]:
    """Return the kappa of every recipe for this kind of kernel, with the reference and the error.

    Raises `KernelError` as `reference`.
    """
    found = _finite(problem.mlp, problem.x) if problem.mlp else _infinite(problem.x, problem.depth)
    rows = []
    with mpmath.workdps(DIGITS):
        exact = reference(problem)
        for method, (low, high, resolved, floor_kappa) in found.items():
            ratio = high / low if low else math.inf
            error = float(abs(ratio / exact - 1))
            rows.append(Measurement(method, float(exact), ratio, resolved, floor_kappa, error))
    return rows


def _finite(mlp: MLP, x: Array) -> dict[str, Estimate]:
    """Return estimates by recipe, the first of which is that of liu2023relu's published code."""
    samples = torch.from_numpy(x)
    single = empirical.ntk(mlp.to(torch.float32), samples.float()).numpy()
    double = empirical.ntk(mlp, samples).numpy()
    estimates = {
        "float32_general": _unguarded(np.linalg.eigvals(single).real, np.float32),
        "float32_symmetric": _unguarded(eigvalsh(single), np.float32),
        "float32": _guarded(conditioning(single)),
        "float64": _guarded(conditioning(double)),
        "extremes": _guarded(extreme_conditioning(double)),
    }
    if mlp.activation.name == "linear":
        factor = empirical.linear_factor(mlp, samples).numpy()
        estimates["factor"] = _guarded(conditioning_from_factor(factor))
    return estimates


def _infinite(x: Array, depth: int) -> dict[str, Estimate]:
    single = _by_arccosines(x.astype(np.float32), depth).astype(np.float64)
    return {
        "cosine_float32": _unguarded(eigvalsh(single), np.float32),
        "cosine": _unguarded(eigvalsh(_by_arccosines(x, depth)), np.float64),
        "deficits": _guarded(conditioning(infinite.ntk(x, depth=depth, activation="relu"))),
    }


def _guarded(conditioned: Conditioning) -> Estimate:
    """Return what the package reports, for comparison also where it reports nothing."""
    low, high, floor = conditioned.lambda_min, conditioned.lambda_max, conditioned.resolution_floor
    return low, high, conditioned.kappa is not None, high / floor


def _unguarded(eigenvalues: NDArray[np.floating[Any]], dtype: DTypeLike) -> Estimate:
    """Return the outermost eigenvalues, whose ratio is reported whatever it is."""
    floor_kappa = 1 / (len(eigenvalues) * float(np.finfo(dtype).eps))
    return float(eigenvalues.min()), float(eigenvalues.max()), True, floor_kappa


def reference(problem: Problem) -> Any:
    """Return kappa of a problem as an mpmath number of `DIGITS` digits.

    Raises `KernelError` if λ_min is not above the rounding errors of those digits.
    """
    with mpmath.workdps(DIGITS):
        x = MPMATH.array(problem.x)
        if problem.mlp is None:
            kernel = _by_arccosines(x, problem.depth, MPMATH)
            # by arccosines an angle of 0 has half of the digits
            np.fill_diagonal(kernel, (problem.depth + 1) * np.sum(x * x, axis=1))
        else:
            kernel = _exact_kernel(problem.mlp, x)
        eigenvalues = mpmath.eigsy(mpmath.matrix(kernel.tolist()), eigvals_only=True)
        smallest, largest = min(eigenvalues), max(eigenvalues)
        if smallest <= largest * mpmath.mpf(10) ** (5 - DIGITS):
            raise KernelError(
                "the kernel of a problem is singular; give wider networks, or fewer samples than "
                "dimensions"
            )
        return largest / smallest


def _exact_kernel(mlp: MLP, x: NDArray[Any]) -> NDArray[Any]:
    """Return the NTK (n, n) of a linear or ReLU network, but for the scales: a common factor."""
    slope_below = mlp.activation.negative_slope or 0
    weights = [MPMATH.array(w.numpy()) for w in mlp.weights]
    alphas, slopes = [x], []
    for weight in weights[:-1]:
        z = alphas[-1] @ weight.T
        slopes.append(np.where(z > 0, 1, slope_below).astype(object))
        alphas.append(z * slopes[-1])
    kernel = alphas[-1] @ alphas[-1].T
    back = weights[-1]
    for layer in range(mlp.depth, 0, -1):
        delta = slopes[layer - 1] * back
        kernel = kernel + (alphas[layer - 1] @ alphas[layer - 1].T) * (delta @ delta.T)
        back = delta @ weights[layer - 1]
    return np.asarray(kernel)


def _by_arccosines(x: NDArray[Any], depth: int, m: Any = np) -> NDArray[Any]:
    """Return the infinite ReLU network's NTK by liu2023relu, Eqs. (8) to (10), in the type of x."""
    sigma = theta = x @ x.T
    scale = m.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    for _ in range(depth):
        cosine = np.clip(sigma / scale, -1, 1)
        angle = m.arccos(cosine)
        sigma = scale * (m.sin(angle) + (m.pi - angle) * cosine) / m.pi
        theta = sigma + theta * (m.pi - angle) / m.pi
    return np.asarray(theta)

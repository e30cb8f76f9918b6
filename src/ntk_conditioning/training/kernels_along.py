"""A network's kernel and its loss's curvature at a moment of training, on a block of samples.

The kernel of c outputs is the mean of the kernels of one output each. Gradients and Hessians are
by parameters as descent moves them: one whose learning rate has a factor s counts sqrt(s) times.
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from ntk_conditioning.kernels import modules
from ntk_conditioning.networks.modules import Network
from ntk_conditioning.spectra.condition_numbers import KernelError, conditioning
from ntk_conditioning.spectra.labels import kernel_target_alignment

#: What is measured, by the names of columns.
ALONG = (
    *("kappa", "lambda_max", "lambda_min", "effective_rank", "alignment", "kernel_change"),
    *("min_angle", "sharpness"),
)
#: Relative residual at which Lanczos stops: errors of the eigenvalue are about its square, times
#: lambda over the gap to the next. So the sharpness is good to 1e-3. It keeps so many vectors.
TOLERANCE, VECTORS = 1e-2, 8
#: Restarts of Lanczos, after which a sharpness that has not converged is missing.
RESTARTS = 30


def module_kernel(
    network: Network, x: Tensor, outputs: Literal["mean_of_kernels", "full"] = "mean_of_kernels"
) -> Tensor:
    """Return the kernel (n, n) of a network whose samples do not interact, in float64.

    With the ``outputs`` "full" it is that of all, (n c, n c), see `modules.ntk`.
    """
    network, x, parts = deepcopy(network).double(), x.double(), []
    names = {parameter: name for name, parameter in network.named_parameters()}
    for factor, parameters in network.rate_groups().items():
        group = [names[parameter] for parameter in parameters]
        k = modules.ntk(network, x, outputs=outputs, parameters=group, progress=False)
        parts.append(factor * k)
    return torch.stack(parts).sum(0)


def sharpness(
    loss: Tensor, factors: Mapping[Tensor, float], *, start: np.random.Generator
) -> float:
    """Return the largest eigenvalue of the Hessian of a ``loss`` in parameters.

    By Lanczos iterations on products of the Hessian and a vector (Pearlmutter 1994), in the
    parameters' type, from a vector that ``start`` draws, see `TOLERANCE`; NaN if they do not
    converge. ``factors`` are those of the parameters' learning rates: beyond 2 over
    the rate, full-batch gradient descent leaves the quadratic expansion of its loss.

    >>> w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> round(sharpness((w**2 @ w**2) / 12, {w: 1.0}, start=np.random.default_rng(0)), 9)
    4.0
    """
    parameters, roots = [*factors], [math.sqrt(factor) for factor in factors.values()]
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    sizes, like = [p.numel() for p in parameters], parameters[0]

    def product(vector: NDArray[np.floating]) -> NDArray[np.floating]:
        parts = torch.split(torch.from_numpy(vector.reshape(-1)).to(like), sizes)
        with torch.enable_grad():
            # the vectors as an argument make torch import sympy
            pairs = zip(gradients, roots, parts, strict=True)
            along = torch.stack([(g * (root * v.view_as(g))).sum() for g, root, v in pairs]).sum()
        if not along.requires_grad:
            return np.zeros_like(vector)
        columns = torch.autograd.grad(along, parameters, retain_graph=True, materialize_grads=True)
        flat = [root * column.reshape(-1) for root, column in zip(roots, columns, strict=True)]
        return torch.cat(flat).numpy(force=True)

    p, dtype = sum(sizes), torch.empty((), dtype=like.dtype).numpy().dtype
    if p == 1:  # eigsh takes two or more
        return float(product(np.ones(1, dtype))[0])
    v0 = start.standard_normal(p).astype(dtype)
    operator, how = LinearOperator((p, p), matvec=product, dtype=dtype), {"v0": v0, "rng": start}
    how |= {"ncv": min(VECTORS, p), "tol": TOLERANCE, "maxiter": RESTARTS}
    try:
        return float(eigsh(operator, 1, which="LA", return_eigenvectors=False, **how)[0])
    except ArpackError:
        return math.nan if product(v0).any() else 0.0


def kernel_numbers(
    k: NDArray[np.float64], initial: NDArray[np.float64], codes: NDArray[np.float64]
) -> dict[str, float]:
    """Return what is said of a kernel (n, n), beside that at initialisation, by `ALONG`'s names.

    ``codes`` (n, c) are those of the labels. What is not resolved is NaN, see `conditioning`, and
    all is where the kernel is zero. The smallest angle between two gradients, in degrees, is
    resolved to about 1e-6; it is NaN if a gradient is 0.
    """
    try:
        spectrum = conditioning(k)
    except KernelError:
        return dict.fromkeys(ALONG[:-1], math.nan)
    norms = np.sqrt(k.diagonal())
    with np.errstate(invalid="ignore"):  # of a zero gradient, a constant kernel, or one class
        cosines = (k / np.outer(norms, norms))[np.triu_indices(len(k), 1)]
        alignment = kernel_target_alignment(k, codes)
    numbers = {
        "kappa": spectrum.kappa,
        "lambda_max": spectrum.lambda_max,
        "lambda_min": None if spectrum.kappa is None else spectrum.lambda_min,
        "effective_rank": spectrum.effective_rank,
        "alignment": alignment,
        "kernel_change": float(np.linalg.norm(k - initial) / np.linalg.norm(initial)),
        # of equal or opposite gradients the cosine may be rounded beyond 1
        "min_angle": math.degrees(math.acos(np.clip(cosines.max(), -1.0, 1.0))),
    }
    return {name: math.nan if value is None else value for name, value in numbers.items()}

"""NTK by the recipes of torch.func's documentation: PROBLEM.npz jacobian|products."""

import sys

import torch
from torch import Tensor
from torch.func import jacrev, jvp, vjp, vmap
from worker import load, serve, threads

torch.set_num_threads(threads())
arrays, matrices, scales = load(sys.argv[1])
x = torch.from_numpy(arrays)
weights = tuple(torch.from_numpy(w) for w in matrices)


def output(weights: tuple[Tensor, ...], sample: Tensor) -> Tensor:
    for weight, scale in zip(weights[:-1], scales, strict=True):
        sample = scale * torch.relu(sample @ weight.T)
    return (sample @ weights[-1].T).squeeze(-1)


def jacobian() -> Tensor:
    """Jacobians of all samples, then their inner products over the parameters."""
    jacobians = vmap(jacrev(output), (None, 0))(weights, x)
    return sum(part.flatten(1) @ part.flatten(1).T for part in jacobians)


def products() -> Tensor:
    """For each pair of samples a product with the Jacobian after one with its transpose."""

    def entry(x1: Tensor, x2: Tensor) -> Tensor:
        value, transposed = vjp(lambda w: output(w, x1), weights)
        (vector,) = transposed(torch.ones_like(value))
        return jvp(lambda w: output(w, x2), (weights,), (vector,))[1]

    return vmap(vmap(entry, (None, 0)), (0, None))(x, x)


serve({"jacobian": jacobian, "products": products}[sys.argv[2]], ["torch"])

"""NTK by the recipes of torch.func's documentation: PROBLEM.npz jacobian|chunks|products."""

import sys

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from torch_model import load_model
from worker import serve, threads

torch.set_num_threads(threads())
model, x = load_model(sys.argv[1])
parameters = {name: p.detach() for name, p in model.named_parameters()}


def output(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
    return functional_call(model, parameters, (sample.unsqueeze(0),)).squeeze()


def jacobian(chunk_size: int | None = None) -> Tensor:
    """Jacobians of the samples, then their inner products over the parameters."""
    jacobians = vmap(jacrev(output), (None, 0), chunk_size=chunk_size)(parameters, x)
    return sum(part.flatten(1) @ part.flatten(1).T for part in jacobians.values())


def products() -> Tensor:
    """For each pair of samples a product with the Jacobian after one with its transpose."""

    def entry(x1: Tensor, x2: Tensor) -> Tensor:
        value, transposed = vjp(lambda p: output(p, x1), parameters)
        (vector,) = transposed(torch.ones_like(value))
        return jvp(lambda p: output(p, x2), (parameters,), (vector,))[1]

    return vmap(vmap(entry, (None, 0)), (0, None))(x, x)


methods = {"jacobian": jacobian, "chunks": lambda: jacobian(64), "products": products}
serve(methods[sys.argv[2]], ["torch"])

"""NTK by vmap(jacrev) of torch.func's documentation: PROBLEM.npz CHUNK|all."""

import sys

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap
from torch_model import load_model
from worker import serve, threads

torch.set_num_threads(threads())
model, x = load_model(sys.argv[1])
parameters = {name: p.detach() for name, p in model.named_parameters()}
chunk_size = None if sys.argv[2] == "all" else int(sys.argv[2])


def output(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
    return functional_call(model, parameters, (sample.unsqueeze(0),)).squeeze()


def kernel() -> Tensor:
    jacobians = vmap(jacrev(output), (None, 0), chunk_size=chunk_size)(parameters, x)
    return sum(part.flatten(1) @ part.flatten(1).T for part in jacobians.values())


serve(kernel, ["torch"])

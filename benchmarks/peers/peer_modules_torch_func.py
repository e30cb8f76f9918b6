"""NTK of a module by torch.func's documentation, 64 Jacobians at a time: PROBLEM.npz."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap
from worker import serve, threads

sys.path.append(str(Path(__file__).parents[1]))
import networks

torch.set_num_threads(threads())
with np.load(sys.argv[1]) as file:
    x = torch.from_numpy(file["x"])
    model = networks.build(str(file["network"]), x.dtype)
parameters = {name: p.detach() for name, p in model.named_parameters()}


def output(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
    return functional_call(model, parameters, (sample.unsqueeze(0),)).squeeze()


def kernel() -> Tensor:
    jacobians = vmap(jacrev(output), (None, 0), chunk_size=64)(parameters, x)
    return sum(part.flatten(1) @ part.flatten(1).T for part in jacobians.values())


serve(kernel, ["torch"])

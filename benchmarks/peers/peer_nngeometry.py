"""NTK by nngeometry's FMatDense, in one batch: PROBLEM.npz."""

import sys

import torch
from nngeometry.backend import TorchHooksJacobianBackend
from nngeometry.object.fspace import FMatDense
from torch_model import load_model
from worker import serve, threads

torch.set_num_threads(threads())
model, x = load_model(sys.argv[1])
# nngeometry sums convolutions and norms up in the default type, which would be float32.
torch.set_default_dtype(x.dtype)
generator = TorchHooksJacobianBackend(model=model)
serve(
    lambda: FMatDense(generator=generator, examples=(x,)).to_torch().detach(),
    ["nngeometry", "torch"],
)

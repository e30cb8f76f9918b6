"""NTK of a module by nngeometry's FMatDense, in one batch: PROBLEM.npz."""

import sys
from pathlib import Path

import numpy as np
import torch
from nngeometry.backend import TorchHooksJacobianBackend
from nngeometry.object.fspace import FMatDense
from worker import serve, threads

sys.path.append(str(Path(__file__).parents[1]))
import networks

torch.set_num_threads(threads())
with np.load(sys.argv[1]) as file:
    x = torch.from_numpy(file["x"])
    model = networks.build(str(file["network"]), x.dtype)
# nngeometry sums convolutions and norms up in the default type, which would be float32.
torch.set_default_dtype(x.dtype)
generator = TorchHooksJacobianBackend(model=model)
serve(
    lambda: FMatDense(generator=generator, examples=(x,)).to_torch().detach(),
    ["nngeometry", "torch"],
)

"""A product with the NTK: PROBLEM.npz torch_func|curvlinops."""

import sys

import torch
from torch import Tensor
from torch.func import functional_call, jvp, vjp
from torch_model import load_model
from worker import serve, threads

torch.set_num_threads(threads())
model, x = load_model(sys.argv[1])
v = torch.cos(torch.arange(len(x), dtype=x.dtype))
batches = x.split(250)


def by_torch_func() -> Tensor:
    weights = {name: p.detach() for name, p in model.named_parameters()}
    moved = {name: torch.zeros_like(w) for name, w in weights.items()}
    functions = [lambda p, b=b: functional_call(model, p, (b,)).flatten() for b in batches]
    for function, part in zip(functions, v.split(250), strict=True):
        for name, change in vjp(function, weights)[1](part)[0].items():
            moved[name] += change
    return torch.cat([jvp(function, (weights,), (moved,))[1] for function in functions])


if sys.argv[2] == "torch_func":
    serve(by_torch_func, ["torch"])
else:
    from curvlinops import JacobianLinearOperator, TransposedJacobianLinearOperator

    labelled = [(b, b.new_zeros(len(b), 1)) for b in batches]
    of = (model, [*model.parameters()], labelled)
    j, jt = (
        kind(*of, check_deterministic=False)
        for kind in (JacobianLinearOperator, TransposedJacobianLinearOperator)
    )
    serve(lambda: (j @ (jt @ v)).detach(), ["curvlinops-for-pytorch", "torch"])

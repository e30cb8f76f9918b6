"""The NTK of samples too many for their kernel: products with it, which is never formed.

    K v = J (Jᵀ v),  J = ∂f/∂p at all samples.

Both passes go through the samples in batches: the first adds up Jᵀ v, which has the size of the
parameters, the second differentiates the outputs in its direction (`torch.func.vjp` and `jvp`).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.func import jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ntk_conditioning.angles.pairs import spans
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.kernels.differentiated_modules import (
    Inputs,
    InputsError,
    OutputsError,
    Selection,
    as_inputs,
    computing,
    differentiated,
    is_out_of_memory,
    require_unmixed,
)
from ntk_conditioning.kernels.modules import (
    Outputs,
    combinations_of,
    ntk,
    require_positive,
    require_varying_sum,
)
from ntk_conditioning.kernels.sample_gradients import TOLERANCE, VmapError, autograd
from ntk_conditioning.kernels.traces import survey
from ntk_conditioning.memory import GB
from ntk_conditioning.networks.mlp import MLP

#: Samples that go through the module at once by default: so many, or fewer if their passes would
#: take more bytes than this.
BATCH, PASS_BYTES = 1024, 2**28
#: Columns of a block that are multiplied together, and share forward passes.
COLUMNS = 8
#: Samples of a block of the kernel of which the diagonal is taken, and of the check below.
FEW = 32
#: The only backend of attention that has forward derivatives.
FORWARD_MODE = SDPBackend.MATH

Weights = Mapping[str, Tensor]
_log = logging.getLogger(__name__)


def ntk_operator(
    model: nn.Module | MLP,
    x: Inputs,
    *,
    outputs: Outputs = "sum",
    output: int | str | None = None,
    parameters: Selection | None = None,
    batch: int | None = None,
) -> NTKOperator:
    """Return the NTK K (n, n) of ``model`` at the samples ``x``, as an operator.

    ``k @ v`` is exact, for a vector (n,) or a block (n, m), a tensor or a NumPy array;
    `condition(k)` has bounds of its spectrum. ``outputs`` and ``parameters`` are those of
    `ntk`: with "full" n is n c. ``output`` picks one of what a model returns, by its key or place.
    ``batch`` samples go through the model at once, by default up to 1024; ``x`` stays where it is,
    and a batch of it moves to the model's device. Beside samples and vectors a product takes the
    memory of the parameters twice, and what a batch takes forward and backward; it costs as much as
    six forward passes of all samples. Up to eight columns of a block share some of these, for eight
    times the parameters. SciPy's solvers take the operator, torch's ``k.as_tensor()``.

    Raises the errors of `ntk` at once, before any product; those of samples beyond the first few,
    which the module does not take, when they are multiplied.

    >>> model = nn.Linear(2, 1)
    >>> k = ntk_operator(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
    >>> (k @ torch.tensor([1.0, 0.0])).tolist(), k.trace()
    ([6.0, 3.0], 8.0)
    """
    require_positive(batch=batch)
    if output is not None:
        module = differentiated(model, parameters)
        model = _Picked(module.model, output)
        parameters = [f"model.{name}" for name in module.parameters]
    return NTKOperator(model, x, outputs, parameters, batch)


class NTKOperator(LinearOperator):  # type: ignore[misc]
    """The NTK at samples, for products; see `ntk_operator`."""

    def __init__(
        self,
        model: nn.Module | MLP,
        x: Inputs,
        outputs: Outputs,
        parameters: Selection | None,
        batch: int | None,
    ) -> None:
        self._module = differentiated(model, parameters)
        self.device = self._module.device
        self._x = as_inputs(x, "cpu", torch.device("cpu"))  # a batch is moved when it is its turn
        self._outputs, self._selection = outputs, parameters
        self._weights = {name: p.detach() for name, p in self._module.parameters.items()}
        self._one_by_one = False
        few = min(FEW, len(self._x[0]))
        with computing(self._module), sdpa_kernel(FORWARD_MODE):
            plan, two = (survey(self._module, self._samples(slice(m))) for m in (1, 2))
            c = combinations_of(outputs, plan.outputs).to(self.device, plan.dtype)
            if outputs == "sum" and plan.outputs > 1:
                require_varying_sum(self._module, plan, self._samples(slice(1)))
            singles = (self._samples(rows) for rows in spans(few, 1))
            alone = torch.cat([self._module.outputs(single) for single in singles])
            require_unmixed(self._module, self._samples(slice(few)), alone, plan.eps)
            self._combinations, self.tensor_dtype = c, plan.precision
            sample_bytes = two.sample_bytes - plan.sample_bytes  # without the weights
            self._batch = batch or max(1, min(BATCH, PASS_BYTES // (4 * max(1, sample_bytes))))
            n = len(self._x[0]) * (plan.outputs if outputs == "full" else 1)
            super().__init__(torch.empty(0, dtype=plan.precision).numpy().dtype, (n, n))
            _log.debug("%r", self)
            try:
                self._check(min(2, few), c[:1])
            except Exception as error:
                if isinstance(error, UserError) or is_out_of_memory(error):
                    raise
                self._one_by_one = True
                what = "samples are differentiated one by one, which is slow: %s"
                _log.warning(what, one_line(error))

    def __matmul__(self, v: Any) -> Any:
        """Return K v (n,) or (n, m): a tensor on the device of the tensor ``v``, or an array."""
        if not isinstance(v, Tensor):
            return super().__matmul__(v)
        if v.ndim not in (1, 2) or len(v) != self.shape[0]:
            raise InputsError(f"a block of shape {tuple(v.shape)}; the kernel is {self.shape}")
        if v.is_complex():
            raise InputsError("the kernel is real: multiply real and imaginary part")
        dtype = self._combinations.dtype
        columns = v.reshape(len(v), -1).to(self.device, dtype)
        with computing(self._module), sdpa_kernel(FORWARD_MODE):
            try:
                parts = [self._times(few) for few in torch.split(columns, COLUMNS, dim=1)]
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                for rows in spans(len(self._x[0]), self._batch):  # explains a module's error
                    self._module.outputs(self._samples(rows))
                raise
        product = torch.cat(parts, dim=1).reshape(v.shape)
        return product.to(v.device, v.dtype if v.is_floating_point() else dtype)

    def _matmat(self, v: Any) -> Any:
        return (self @ torch.from_numpy(np.ascontiguousarray(v))).numpy()

    def _adjoint(self) -> NTKOperator:
        return self

    def __repr__(self) -> str:
        weights = sum(w.numel() for w in self._weights.values())
        gigabytes = 2 * weights * self._combinations.itemsize / GB
        return (
            f"NTK of {len(self._x[0]):,} samples, {self.shape[0]:,} x {self.shape[1]:,}, for "
            f"products: {weights:,} parameters, {gigabytes:.2g} GB and {self._batch} samples at "
            f"once; {self.dtype} on {self.device}"
        )

    @cached_property
    def _diagonal(self) -> Tensor:
        """The diagonal (n,), from kernels of a few samples at a time."""
        if self._one_by_one:
            gradients = self._gradients(len(self._x[0]), self._combinations)
            squares = torch.stack([g.square().sum(1) for g in gradients])
            return squares.mean(1) if self._outputs == "mean_of_kernels" else squares.ravel()
        given: Any = {"outputs": self._outputs, "parameters": self._selection, "progress": False}
        parts = (tuple(self._samples(rows)) for rows in spans(len(self._x[0]), FEW))
        return torch.cat([ntk(self._module.model, part, **given).diagonal() for part in parts])

    def as_tensor(self) -> Tensor:
        """Return the kernel as a tensor without entries, which can be multiplied, and no more."""
        return _Multiplied(self)

    def diagonal(self) -> Tensor:
        """Return the diagonal (n,): the squared norms of the gradients, computed once."""
        return self._diagonal

    def trace(self) -> float:
        """Return the sum of the eigenvalues."""
        return float(self.diagonal().double().sum())

    def _times(self, v: Tensor) -> Tensor:
        """Return K v (n, m) for a few columns."""
        c = self._combinations
        if self._outputs == "mean_of_kernels":
            return torch.stack([self._product(v, row[None]) for row in c]).mean(0)
        return self._product(v, c)

    def _product(self, v: Tensor, c: Tensor) -> Tensor:
        """Return J Jᵀ v at the first n samples, of columns v (n k, m) for k combinations c."""
        v = v.reshape(-1, len(c), v.shape[1])
        n, _, m = v.shape
        if self._one_by_one:
            pairs = zip(self._gradients(n, c), v, strict=True)
            change = reduce(torch.add, (row.T @ g for g, row in pairs))  # (m, p)
            return torch.cat([g @ change.T for g in self._gradients(n, c)])
        batch = max(1, 2 * self._batch // (1 + m))  # each column has derivatives to keep
        moved: Weights = {name: w.new_zeros(m, *w.shape) for name, w in self._weights.items()}
        with warnings.catch_warnings():  # that an operation is slow, and what torch says of itself
            warnings.filterwarnings("ignore", category=UserWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            for rows in spans(n, batch):
                _, back = vjp(partial(self._combined, rows, c), self._weights)  # type: ignore[misc]
                (changes,) = vmap(back, in_dims=2)(v[rows])
                for name, change in changes.items():
                    moved[name].add_(change)
            directional = vmap(self._directional, in_dims=(None, None, 0), out_dims=2)
            parts = [directional(rows, c, moved) for rows in spans(n, batch)]
        return torch.cat(parts).flatten(0, 1)

    def _check(self, n: int, c: Tensor) -> None:
        """Raise `VmapError` if a product at the first n samples is not that of autograd."""
        v = torch.arange(1, n + 1, device=self.device)[:, None].to(c)
        computed, gradients = self._product(v, c), torch.cat([*self._gradients(n, c)])
        expected = gradients @ (gradients.T @ v)
        off = TOLERANCE[self.tensor_dtype] * float(expected.nan_to_num().abs().max())
        if not torch.allclose(computed, expected, rtol=0, atol=off, equal_nan=True):
            raise VmapError("products differ from autograd's")

    def _gradients(self, n: int, c: Tensor) -> Iterator[Tensor]:
        """Yield the gradients (k, p) of each of the first samples, by autograd."""
        for rows in spans(n, 1):
            parts = autograd(self._module, self._samples(rows), c, [*self._weights])[1]
            yield torch.cat([*parts.values()], dim=1)

    def _directional(self, rows: slice, c: Tensor, moved: Weights) -> Tensor:
        """Return the derivatives (b, k) of a batch's outputs in a direction of the parameters."""
        function = partial(self._combined, rows, c)
        try:
            derivatives: Tensor = jvp(function, (self._weights,), (moved,))[1]
            return derivatives
        except RuntimeError as error:
            if "forward" not in str(error):  # an operation that has no forward mode
                raise
        values, back = vjp(function, self._weights)  # type: ignore[misc]
        _, forward_again = vjp(lambda s: back(s)[0], torch.zeros_like(values))  # type: ignore[misc]
        (derivatives,) = forward_again(moved)
        return derivatives

    def _combined(self, rows: slice, c: Tensor, weights: Weights) -> Tensor:
        f = self._module.outputs_with(weights, *(t.clone() for t in self._samples(rows)))
        return f.to(c.dtype) @ c.T

    def _samples(self, rows: slice) -> list[Tensor]:
        return [t[rows].to(self.device) for t in self._x]


class _Picked(nn.Module):
    """A module that returns one of what another returns."""

    def __init__(self, model: nn.Module, output: int | str) -> None:
        super().__init__()
        self.model, self._output = model, output

    def forward(self, *x: Tensor) -> Any:
        returned = self.model(*x)
        try:
            return returned[self._output]
        except (KeyError, IndexError, TypeError):
            kind = type(returned).__name__
            raise OutputsError(f"the module returns a {kind} without {self._output!r}") from None


class _Multiplied(Tensor):
    """A tensor that is an operator: of all of torch's functions it knows products with matrices."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, operator: NTKOperator) -> _Multiplied:
        kind: Any = {"dtype": operator.tensor_dtype, "device": operator.device}
        return Tensor._make_wrapper_subclass(cls, operator.shape, **kind)

    def __init__(self, operator: NTKOperator) -> None:
        self._operator = operator

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.mm.default and isinstance(args[0], cls):
            # torch.func does not work within a dispatch, whose state is the thread's
            with ThreadPoolExecutor(1) as other_thread:
                return other_thread.submit(args[0]._operator.__matmul__, args[1]).result()
        raise TypeError(f"{func} of a kernel that is never formed: it can be multiplied alone")

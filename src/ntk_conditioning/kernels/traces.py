"""Which weights have gradients that factor, found by watching torch's calls on one sample.

A linear layer z_s = W a_s at positions s has ∂f/∂W = Σ_s d_s a_sᵀ with d_s = ∂f/∂z_s. To get d_s
without forming ∂f/∂W, the layer's result becomes z_s + shift_s, where all shifts are zero, and f is
differentiated by the shifts. This is done for weights that are used once, by a linear layer, a
matrix product or an embedding. The gradients for all others, as the kernels of convolutions, come
from torch as they are: see `sample_gradients`.
"""

from __future__ import annotations

import random
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ntk_conditioning.kernels.differentiated_modules import (
    DifferentiatedModule,
    ModuleError,
    OutputsError,
    TrainingModeError,
)
from ntk_conditioning.kernels.kernel_terms import LayerSizes

DRAWS = (
    "the module draws random numbers, as dropout and stochastic depth do while training; call "
    "model.eval() or draw them before"
)

_MATRIX_PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}
_TRANSPOSING = {torch.t, Tensor.t, torch.transpose, Tensor.transpose}
_TRANSPOSING |= {getattr(Tensor, name).__get__ for name in ("T", "mT")}
_MULTIPLYING = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_DIVIDING = {torch.div, Tensor.div, Tensor.__truediv__}


@dataclass(frozen=True, eq=False)
class TracePlan:
    """How the gradients of a module are computed.

    Weights in ``factored`` keep their gradients as factors. There are so many ``outputs``, of type
    ``dtype``; ``precision`` is the lowest on the way to them. ``sample_bytes`` are what all
    intermediate results of one sample take. Without ``use_vmap``, autograd takes sample by sample.
    """

    factored: Mapping[str, LayerSizes]
    outputs: int
    dtype: torch.dtype
    precision: torch.dtype
    sample_bytes: int
    use_vmap: bool = True

    @property
    def eps(self) -> float:
        """The relative rounding error of the lowest precision."""
        return torch.finfo(self.precision).eps


def survey(module: DifferentiatedModule, sample: Sequence[Tensor]) -> tuple[TracePlan, Trace]:
    """Run a module on one sample; return a plan that factors all weights that can be, and a trace.

    The module is traced twice, to find out whether it is random. Raises `OutputsError`,
    `TrainingModeError` and `ModuleError`.
    """
    traces, outputs = [Trace(module.parameters), Trace(module.parameters)], list[Tensor]()
    before = random_state(module.device)
    module.outputs(sample)  # first without a trace, to fill caches that the module may have
    for trace in traces:
        with torch.enable_grad(), trace:
            outputs.append(module.outputs(sample))
    require_nothing_drawn(before, module.device)
    if traces[0].states != traces[1].states:
        raise TrainingModeError(DRAWS)
    if not torch.equal(outputs[0].nan_to_num(), outputs[1].nan_to_num()):
        raise TrainingModeError("the module gives other outputs each time; call model.eval()")
    if not outputs[0].requires_grad:
        raise OutputsError("the outputs have no gradients: do not detach what they are made of")
    results = traces[0].results
    dtypes = {t.dtype for t in results if t.requires_grad} | {outputs[0].dtype}
    lowest = max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)
    if torch.finfo(lowest).eps > torch.finfo(torch.float32).eps:
        raise ModuleError(
            f"the module computes in {lowest}, too coarse for a kernel; call model.float() or "
            "model.double(), and leave autocast"
        )
    uses = traces[0].uses.items()
    once = {name: use[0] for name, use in uses if len(use) == 1 and use[0] is not None}
    size = sum(t.nbytes for t in results)
    return TracePlan(once, outputs[0].shape[1], outputs[0].dtype, lowest, size), traces[0]


class Trace(TorchFunctionMode):
    """Watches the calls of torch's functions, also those within multi-head attention.

    ``uses`` has for each of ``weights`` the sizes of a layer, or None for any other use, as in a
    convolution. ``inputs`` are the a (positions, in) of a weight's layer, or the row numbers
    (positions,) of an embedding, ``zeros`` the shifts (positions, out) that it needs. If ``shifts``
    are given, they are added to the layers' results. ``results`` are all tensors that functions
    returned, ``states`` those of generators passed to them, ``last`` is the last function's name.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], shifts: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        # Name and factor of each weight, and of its multiples and transposes, by id; the tensor
        # itself is kept, too, so that no other tensor gets this id.
        self._weights = {id(w): (name, 1.0, w) for name, w in weights.items()}
        self._shifts = shifts
        self.uses: dict[str, list[LayerSizes | None]] = {name: [] for name in weights}
        self.inputs: dict[str, Tensor] = {}
        self.zeros: dict[str, Tensor] = {}
        self.last = ""
        self.results: list[Tensor] = []
        self.states: list[bytes] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.last = getattr(func, "__name__", str(func))
        if func is functional.instance_norm:
            func = _instance_norm
        if func is functional.multi_head_attention_forward:
            with self:
                return _attention(*args, **kwargs)
        result = func(*args, **kwargs)
        if self._shifts is None:
            self.results += tensors(result)
            if isinstance(generator := kwargs.get("generator"), torch.Generator):
                self.states.append(generator.get_state().numpy().tobytes())
        weights = [self._weights[id(t)] for t in tensors((args, kwargs)) if id(t) in self._weights]
        if not weights or next(tensors(result), None) is None:
            return result
        if len(weights) == 1:
            name, scale, weight = weights[0]
            if (factor := _factor_of_multiple(func, args, kwargs, weight)) is not None:
                self._weights[id(result)] = name, scale * factor, result
                return result
        for name, scale, weight in weights:
            layer = _layer_of(func, args, kwargs, weight)
            if layer is None or id(layer.x) in self._weights:
                self.uses[name].append(None)
            else:
                result = self._record(name, scale, result, layer)
        return result

    def _record(self, name: str, scale: float, result: Tensor, layer: LayerCall) -> Tensor:
        """Record a layer with the weight ``name``, and return its result with the shift added."""
        x, by_index = layer.x, not layer.x.is_floating_point()
        positions = result.numel() // layer.outputs
        self.inputs[name] = x.reshape(positions) if by_index else x.reshape(positions, layer.inputs)
        if self._shifts is None:
            sizes = LayerSizes(positions, layer.inputs, layer.outputs, by_index=by_index)
            self.uses[name].append(sizes)
            self.zeros[name] = result.new_zeros(positions, layer.outputs)
            return result
        shift = scale * self._shifts[name].view(result.shape)
        if layer.padding is not None:  # the embedding's row of this number has no gradient
            shift = shift * (x != layer.padding).unsqueeze(-1)
        return result + shift


class LayerCall(NamedTuple):
    """A layer's input, its sizes, and the number of the row that an embedding pads with."""

    x: Tensor
    inputs: int
    outputs: int
    padding: int | None = None


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors([*value.values()])


def _factor_of_multiple(func: Any, args: Any, kwargs: Any, weight: Tensor) -> float | None:
    """Return c if a call returns c W or c Wᵀ for the weight W, and None for all other calls."""
    if kwargs or args[0] is not weight or weight.ndim != 2:
        return None
    if func in _TRANSPOSING:
        return 1.0
    if len(args) == 2 and isinstance(args[1], int | float):
        if func in _MULTIPLYING:
            return float(args[1])
        if func in _DIVIDING:
            return 1 / args[1]
    return None


def _layer_of(func: Any, args: Any, kwargs: Any, weight: Tensor) -> LayerCall | None:
    """Return the layer W a that a call computes, or None if it is none, as a convolution's."""
    if weight.ndim != 2:
        return None
    if func is functional.linear:
        given = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        if given["weight"] is weight:
            return LayerCall(given["input"], weight.shape[1], weight.shape[0])
    elif func in _MATRIX_PRODUCTS and len(args) == 2 and args[1] is weight:
        return LayerCall(args[0], weight.shape[0], weight.shape[1])
    elif func is functional.embedding:
        names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "by_freq", "sparse")
        given = dict(zip(names, args, strict=False)) | kwargs
        if not given.get("by_freq") and not kwargs.get("scale_grad_by_freq"):
            padding = given.get("padding_idx")
            padding = padding + len(weight) if padding is not None and padding < 0 else padding
            return LayerCall(given["input"], weight.shape[0], weight.shape[1], padding)
    return None


def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return `torch.nn.functional.instance_norm`, by functions that `torch.func.vmap` takes."""
    if use_input_stats:
        return functional.group_norm(input, input.shape[1], weight, bias, eps)
    return functional.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)


def _with_visible_calls(function: Any) -> Any:
    """Return a copy of a Python function of torch's whose inner calls a `Trace` can see."""
    names = {**function.__globals__, "has_torch_function": lambda *_: False}
    copied = types.FunctionType(function.__code__, names, argdefs=function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_attention = _with_visible_calls(functional.multi_head_attention_forward)


def random_state(device: torch.device) -> list[Any]:
    """Return the states of the generators that a module may draw from."""
    of_torch = [torch.get_rng_state().numpy().tobytes()]
    if device.type == "cuda":
        of_torch.append(torch.cuda.get_rng_state(device).numpy().tobytes())
    of_numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 what modules use
    return [*of_torch, random.getstate(), of_numpy["key"].tobytes(), of_numpy["pos"]]


def require_nothing_drawn(before: list[Any], device: torch.device) -> None:
    """Raise `TrainingModeError` if a generator has advanced, even if no output shows it."""
    if random_state(device) != before:
        raise TrainingModeError(DRAWS)

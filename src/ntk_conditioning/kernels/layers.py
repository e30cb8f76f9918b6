"""Rules of the calls in which weights meet samples: what is watched, and the gradients from it.

Each rule makes the call itself and returns its result, or `NotImplemented` for options that it does
not cover.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ntk_conditioning.kernels import convolutions
from ntk_conditioning.kernels.contributions import Product
from ntk_conditioning.kernels.convolutions import Geometry
from ntk_conditioning.kernels.rows import tensors
from ntk_conditioning.kernels.traces import Axis, Rule, Trace, Use, summing

RULES: dict[Any, Rule] = {}


def _rule(*functions: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(functions, rule))
        return rule

    return register


def _bound(parameters: list[inspect.Parameter], args: Any, kwargs: Any) -> dict[str, Any]:
    bound = inspect.Signature(parameters).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _signature(**defaults: Any) -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = inspect.Parameter.empty
    return [
        inspect.Parameter(name, kind, default=empty if value is ... else value)
        for name, value in defaults.items()
    ]


# --- products -------------------------------------------------------------------------------------

_LINEAR = _signature(input=..., weight=..., bias=None)


@_rule(functional.linear)
def _linear(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """x W^T + b over the last dimension; every other one is a position."""
    given = _bound(_LINEAR, args, kwargs)
    return _affine(trace, axis, given["input"], given["weight"], given["bias"])


def _affine(trace: Trace, axis: Axis, x: Tensor, weight: Tensor, bias: Any) -> Any:
    known = trace.derived(weight)
    if trace.derived(x) or weight.ndim != 2:
        return NotImplemented
    out = functional.linear(x, trace.constant(weight), trace.constant(bias))
    if axis.dim == out.ndim - 1:
        return NotImplemented
    uses = []
    if known:

        def factors(delta: Tensor) -> tuple[Tensor, Tensor]:
            a, d = (axis.by_sample(t).flatten(1, -2) for t in (x, delta))
            return a.unsqueeze(1), d.unsqueeze(1)

        def gradient(delta: Tensor, out: Tensor | None = None) -> Tensor:
            a, d = (t.squeeze(1) for t in factors(delta))
            return torch.bmm(d.mT, a, out=out)

        places = out.numel() // out.shape[-1] // axis.samples(out)
        product = Product(1, places, weight.shape[1], weight.shape[0])
        uses.append(Use(known, gradient, factors, product))
    if offset := trace.derived(bias):
        uses.append(Use(offset, lambda delta: axis.by_sample(delta).flatten(1, -2).sum(1)))
    return trace.watch(out, uses, axis)


@_rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm)
def _matmul(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """x W, or W x for samples whose last dimension holds positions."""
    if len(args) != 2 or kwargs:
        return NotImplemented
    left, right = args
    if trace.derived(left) and not trace.derived(right):
        if left.ndim != 2 or right.ndim < 2 or axis.dim == right.ndim - 2:
            return NotImplemented
        turned = axis
        if axis.dim == right.ndim - 1:
            turned = Axis(axis.dim - 1, axis.before, axis.after)
        return _then_turn(_affine(trace, turned, right.mT, left, None))
    if right.ndim == 1 and trace.derived(right) and not trace.derived(left):
        made = _affine(trace, axis, left, trace.rearranged(right, lambda w: w.unsqueeze(0)), None)
        return made if made is NotImplemented else made.squeeze(-1)
    if trace.derived(right) and right.ndim == 2:
        return _affine(trace, axis, left, trace.rearranged(right, lambda w: w.mT), None)
    return NotImplemented


def _then_turn(made: Any) -> Any:
    return made if made is NotImplemented else made.mT


@_rule(torch.addmm, Tensor.addmm)
def _addmm(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """b + x W."""
    if len(args) != 3 or kwargs or not trace.derived(args[2]) or args[0].ndim != 1:
        return NotImplemented
    return _affine(trace, axis, args[1], trace.rearranged(args[2], lambda w: w.mT), args[0])


@_rule(torch.einsum)
def _einsum(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """Two factors whose common indices are summed over, as in a linear layer."""
    equation, *factors = args
    if len(factors) == 1 and isinstance(factors[0], tuple | list):
        factors = [*factors[0]]
    given, arrow, made = str(equation).replace(" ", "").partition("->")
    letters = given.split(",")
    if len(factors) != 2 or not arrow or "." in given or any(len({*t}) < len(t) for t in letters):
        return NotImplemented
    if trace.derived(factors[0]):
        letters, factors = letters[::-1], factors[::-1]
    (of_x, of_w), (x, weight) = letters, factors
    kept, common = ([t for t in of_x if t in group] for group in (made, of_w))
    new = [t for t in of_w if t in made]
    if not trace.derived(weight) or {*kept} & {*common} or {*new} | {*common} != {*of_w}:
        return NotImplemented
    if made[axis.dim] in new:
        return NotImplemented
    alone = [of_x.index(t) for t in of_x if t not in kept + common]
    x = x.permute([*(of_x.index(t) for t in kept + common), *alone])
    x = x.flatten(len(kept) + len(common)).sum(-1) if alone else x
    x = x.flatten(len(kept)) if common else x.unsqueeze(-1)
    sizes = [weight.shape[of_w.index(t)] for t in new]
    order = [of_w.index(t) for t in new + common]
    matrix = trace.rearranged(weight, lambda w: w.permute(order).reshape(math.prod(sizes), -1))
    turned = Axis(kept.index(made[axis.dim]), axis.before, axis.after)
    out = _affine(trace, turned, x, matrix, None)
    if out is NotImplemented:
        return out
    out = out.reshape(*out.shape[:-1], *sizes)
    return out.permute([(kept + new).index(t) for t in made])


_EMBEDDING = _signature(
    input=...,
    weight=...,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
)


@_rule(functional.embedding)
def _embedding(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """Rows of W; a padding row has no gradient."""
    given = _bound(_EMBEDDING, args, kwargs)
    tokens, weight = given["input"], given["weight"]
    known, padding = trace.derived(weight), given["padding_idx"]
    if known is None or given["max_norm"] is not None or given["scale_grad_by_freq"]:
        return NotImplemented
    padding = padding + len(weight) if padding is not None and padding < 0 else padding
    out = functional.embedding(tokens, trace.constant(weight), padding)
    rows, width = weight.shape

    def factors(delta: Tensor) -> tuple[Tensor, Tensor]:
        a, d = axis.by_sample(tokens).flatten(1), axis.by_sample(delta).flatten(1, -2)
        if padding is not None:
            d = d.masked_fill((a == padding).unsqueeze(-1), 0)
        return a.unsqueeze(1), d.unsqueeze(1)

    def gradient(delta: Tensor, out: Tensor | None = None) -> Tensor:
        a, d = (t.squeeze(1) for t in factors(delta))
        total = d.new_zeros(len(d), rows, width) if out is None else out.zero_()
        return total.scatter_add_(1, a.unsqueeze(-1).expand_as(d), d)

    product = Product(1, tokens.numel() // axis.samples(out), rows, width, by_index=True)
    return trace.watch(out, [Use(known, gradient, factors, product)], axis)


# --- convolutions ---------------------------------------------------------------------------------

_CONVOLUTION = _signature(
    input=..., weight=..., bias=None, stride=1, padding=0, dilation=1, groups=1
)
_TRANSPOSED = _signature(
    input=..., weight=..., bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
)


def _numbers(value: Any, dims: int) -> tuple[int, ...]:
    numbers = (value,) * dims if isinstance(value, int) else tuple(value)
    return numbers * dims if len(numbers) == 1 else numbers


def _geometry(given: dict[str, Any]) -> Geometry:
    kernel = tuple(given["weight"].shape[2:])
    stride, padding, dilation = (
        _numbers(given[name], len(kernel)) for name in ("stride", "padding", "dilation")
    )
    return Geometry(kernel, stride, padding, dilation, given["groups"])


def _concerns(trace: Trace, x: Tensor, weight: Tensor, bias: Any) -> bool:
    """Return whether samples with channels meet weights that are watched, or slowly any weights."""
    watched = trace.derived(weight) or trace.derived(bias) or convolutions.is_slow(x)
    return x.ndim == weight.ndim and not trace.derived(x) and bool(watched)


def _add_bias(trace: Trace, out: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return out
    fixed: Tensor = trace.constant(bias)
    return out + fixed.view(-1, *[1] * (out.ndim - 2))


def _bias_use(trace: Trace, bias: Any) -> list[Use]:
    known = trace.derived(bias)
    return [Use(known, lambda delta: delta.flatten(2).sum(2))] if known else []


@_rule(functional.conv1d, functional.conv2d, functional.conv3d)
def _convolution(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """A convolution: the windows of x are its positions."""
    given = _bound(_CONVOLUTION, args, kwargs)
    x, weight, bias = given["input"], given["weight"], given["bias"]
    if axis.dim != 0 or not _concerns(trace, x, weight, bias):
        return NotImplemented
    if isinstance(given["padding"], str):
        if given["padding"] == "same":
            kernel = tuple(weight.shape[2:])
            x = convolutions.same_padding(x, kernel, _numbers(given["dilation"], len(kernel)))
        given["padding"] = 0
    g, fixed = _geometry(given), trace.constant(weight)
    if convolutions.is_slow(x):
        out = _add_bias(trace, convolutions.differentiable(g)(x, fixed), bias)
    else:
        options = g.stride, g.padding, g.dilation, g.groups
        out = func(x, fixed, trace.constant(bias), *options)
    uses = [*_bias_use(trace, bias)]
    if known := trace.derived(weight):
        x = x.detach()

        def factors(delta: Tensor) -> tuple[Tensor, Tensor]:
            d = convolutions.by_position(delta, g.groups)
            return convolutions.unfold(x, g).mT, d.mT

        def gradient(delta: Tensor, out: Tensor | None = None) -> Tensor:
            return convolutions.weight_gradients(x, delta, g, out=out)

        groups, places = g.groups, out[0, 0].numel()
        product = Product(groups, places, weight[0].numel(), len(weight) // groups)
        uses.append(Use(known, gradient, factors, product))
    return trace.watch(out, uses, axis) if axis.before == axis.after == 1 else NotImplemented


@_rule(functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
def _transposed(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """The adjoint of a convolution, in which samples and gradients at the output change places."""
    given = _bound(_TRANSPOSED, args, kwargs)
    x, weight, bias = given["input"], given["weight"], given["bias"]
    if axis != Axis(0) or not _concerns(trace, x, weight, bias):
        return NotImplemented
    g, more = _geometry(given), _numbers(given["output_padding"], weight.ndim - 2)
    fixed = trace.constant(weight)
    if convolutions.is_slow(x):
        sizes = zip(x.shape[2:], g.kernel, g.stride, g.padding, g.dilation, more, strict=True)
        places = tuple((m - 1) * s - 2 * p + d * (k - 1) + e + 1 for m, k, s, p, d, e in sizes)
        out = _add_bias(trace, convolutions.differentiable_transposed(g, places)(x, fixed), bias)
    else:
        options = g.stride, g.padding, more, g.groups, g.dilation
        out = func(x, fixed, trace.constant(bias), *options)
    uses = [*_bias_use(trace, bias)]
    if known := trace.derived(weight):
        uses.append(Use(known, lambda delta: convolutions.weight_gradients(delta, x.detach(), g)))
    return trace.watch(out, uses, axis)


# --- elementwise ----------------------------------------------------------------------------------

_NAMES = (
    "add sub rsub mul div true_divide subtract multiply divide truediv pow maximum minimum where "
    "lerp addcmul addcdiv"
)


def _variants(name: str) -> list[Any]:
    names = [name, f"{name}_", *(f"__{how}{name}__" for how in ("", "r", "i"))]
    return [getattr(owner, n) for owner in (torch, Tensor) for n in names if hasattr(owner, n)]


@_rule(*(function for name in _NAMES.split() for function in _variants(name)))
def _elementwise(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """Any function entry by entry, whose weights are spread over the output first."""
    given = [*tensors((args, kwargs))]
    if not any(map(trace.derived, given)):
        return NotImplemented
    shape = np.broadcast_shapes(*(t.shape for t in given))

    def spread(value: Any) -> Any:
        return trace.elementwise(shape, axis, value) if isinstance(value, Tensor) else value

    return func(*map(spread, args), **{key: spread(value) for key, value in kwargs.items()})


_SPREADING = Tensor.expand, Tensor.expand_as, torch.broadcast_to, Tensor.broadcast_to, Tensor.repeat


@_rule(*_SPREADING, torch.tile, Tensor.tile)
def _spread(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor from parameters that each sample gets, such as a class token."""
    value = args[0]
    if trace.derived(value) is None:
        return NotImplemented
    shape = tuple(func(value.detach(), *args[1:], **kwargs).shape)
    aligned = (1,) * (len(shape) - value.ndim) + tuple(value.shape)
    if any(a not in (1, b) for a, b in zip(aligned, shape, strict=True)):
        return NotImplemented
    return trace.elementwise(shape, axis, value)


@_rule(torch.prelu, functional.prelu, Tensor.prelu)
def _prelu(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
    """max(x, 0) + w min(x, 0), with a weight for each channel or a single one."""
    given = _bound(_signature(input=..., weight=...), args, kwargs)
    x, weight = given["input"], given["weight"]
    if trace.derived(weight) is None or trace.derived(x):
        return NotImplemented
    weight = trace.rearranged(weight, lambda w: w.view(-1, *[1] * max(0, x.ndim - 2)))
    return torch.where(x > 0, x, trace.elementwise(tuple(x.shape), axis, weight) * x)


# --- normalisations -------------------------------------------------------------------------------


def _normalisation(function: Any, *, channels: bool) -> None:
    """Add the rule of a normalisation, whose weights scale and shift what it gives without them."""
    parameters = [*inspect.signature(function).parameters.values()]

    @_rule(function)
    def rule(trace: Trace, axis: Axis, func: Any, args: Any, kwargs: Any) -> Any:
        given = _bound(parameters, args, kwargs)
        weights = {name: given[name] for name in ("weight", "bias") if name in given}
        scale, shift = (trace.derived(weights.get(name)) for name in ("weight", "bias"))
        if not (scale or shift) or trace.derived(given["input"]):
            return NotImplemented
        out = func(**given | {name: trace.constant(w) for name, w in weights.items()})
        bare = given | dict.fromkeys(weights) | {"input": given["input"].detach()}
        summed = partial(summing, axis=axis, ndim=out.ndim, behind=out.ndim - 2 if channels else 0)
        uses = []
        if scale:
            by_scale = summed(scale.tensor)
            uses.append(Use(scale, lambda delta: by_scale(delta * func(**bare))))
        if shift:
            uses.append(Use(shift, summed(shift.tensor)))
        return trace.watch(out, uses, axis)


_normalisation(functional.layer_norm, channels=False)
_normalisation(functional.rms_norm, channels=False)
_normalisation(functional.group_norm, channels=True)
_normalisation(functional.instance_norm, channels=True)
_normalisation(functional.batch_norm, channels=True)

"""Activations by name: function, derivative, scale, and what their kernels need to know.

A layer of width m computes gain / sqrt(m) · σ(W α) with standard normal W (liu2023relu, Eqs. (1)
and (3)). ``gain`` is 1 / sqrt(E σ(z)²) for z ~ N(0, 1): sqrt(2) for ReLU and 1 for the identity, so
that an input of norm 1 keeps its norm through layers of infinite width.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.calculus import Array as Array
from ntk_conditioning.networks.calculus import gaussian_rule, points_between, wrong_slope
from ntk_conditioning.networks.user_files import run_file

if TYPE_CHECKING:
    from torch import Tensor

    Function = Callable[[Tensor], Tensor]

TOLERATED = 0.01  # the largest error of cosines with which kernels at infinite width are computed


class UnknownActivationError(UserError):
    """No activation has this name."""


class ActivationError(UserError):
    """An activation cannot be registered or does not compute."""


@dataclass(frozen=True)
class Activation:
    """An activation σ: ``function`` and ``derivative`` map tensors elementwise, keeping the dtype.

    ``homogeneous``: σ(c z) = c σ(z) for c > 0. ``kinks``: where the derivative jumps.
    ``negative_slope``: σ is the leaky ReLU of this slope. ``exact_gain``: the gain, if it needs no
    quadrature. Raises `ActivationError` for bad names.
    """

    name: str
    function: Function = field(repr=False)
    derivative: Function = field(repr=False)
    homogeneous: bool = False
    kinks: tuple[float, ...] = ()
    negative_slope: float | None = None
    exact_gain: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinks", tuple(map(float, self.kinks)))  # a list has no hash
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", self.name):
            problem = "cannot name a folder; use lower-case letters, digits, _ . -"
            raise ActivationError(f"{self.name!r} {problem}")

    @cached_property
    def gain(self) -> float:
        """1 / sqrt(E σ(z)²) for z ~ N(0, 1), by quadrature if no exact value was given.

        Raises `ActivationError` if σ is zero or does not compute, or has another derivative.
        """
        if self.exact_gain is not None:
            return self.exact_gain
        self.require_derivative()
        square = self.expectation(np.square)
        if square == 0:
            raise ActivationError(f"{self.name}: the function is zero")
        return 1 / math.sqrt(square)

    def expectation(self, of: Callable[[Array], Array], *, q: float = 1.0) -> float:
        """Return E of(σ(√q z)) for z ~ N(0, 1), by quadrature between the kinks."""
        root = math.sqrt(q)
        z, weights = gaussian_rule(tuple(kink / root for kink in self.kinks))
        return float(of(self.values(root * z)) @ weights)

    def require_derivative(self) -> None:
        """Compare the derivative with difference quotients; `ActivationError` if they differ.

        A function must not change its argument either: networks take the slope at the same place.
        """
        z = points_between(self.kinks)
        given = z.copy()
        if wrong := wrong_slope(z, self.slopes(given), self.values):
            problem = "derivative({:g}) is {:.6g}, but function rises by {:.6g} there"
            raise ActivationError(f"{self.name}: {problem.format(*wrong)}")
        self.values(given)
        if (given != z).any():
            raise ActivationError(f"{self.name}: changes its argument, as clamp_ does")

    def values(self, z: Array) -> Array:
        """Return σ(z) of a float64 array of any shape; `ActivationError` if not finite."""
        return self._apply(self.function, z)

    def slopes(self, z: Array) -> Array:
        """Return σ'(z) of a float64 array of any shape; `ActivationError` if not finite."""
        return self._apply(self.derivative, z)

    def _apply(self, function: Function, z: Array) -> Array:
        import torch  # heavy, and kernels with a closed form do without

        with torch.no_grad():  # they may have parameters
            result: Any = function(torch.from_numpy(np.ascontiguousarray(z)))
        if not isinstance(result, torch.Tensor):
            problem = f"maps tensors to a {type(result).__name__}; give functions of torch"
            raise ActivationError(f"{self.name}: {problem}")
        if result.shape != z.shape or result.dtype != torch.float64:
            shapes = f"float64 of shape {z.shape} to {result.dtype} of shape {tuple(result.shape)}"
            raise ActivationError(f"{self.name}: maps {shapes}; give elementwise functions")
        values: Array = result.numpy()
        if not np.isfinite(values).all():
            raise ActivationError(
                f"{self.name}: not finite at z = {z[~np.isfinite(values)][0]:.6g}"
            )
        return values


_REGISTRY: dict[str, Activation] = {}
_PLUGINS: set[Path] = set()
NORMALIZED = "normalized_"
_LEAKY, _NORMRELU = "leaky_relu", "normrelu"
# NormReLU with a kink further out is the identity or a constant, up to 1e-9.
_FURTHEST_KINK = 6.0


def names() -> tuple[str, ...]:
    """Return the names of all registered activations."""
    return tuple(_REGISTRY)


def register(activation: Activation) -> None:
    """Make an activation available under its name.

    Raises `ActivationError` if the name is taken, or would be read as a variant of another.
    """
    if is_known(activation.name) or activation.name.startswith(NORMALIZED):
        raise ActivationError(f"the name {activation.name!r} is taken; choose another")
    _REGISTRY[activation.name] = activation


def base_name(name: str) -> str:
    """Return the registered name that a spelling refers to, or the spelling."""
    name = name.removeprefix(NORMALIZED)
    if re.fullmatch(rf"{_LEAKY}-\d+(\.\d+)?", name):
        return _LEAKY
    kink = re.fullmatch(rf"{_NORMRELU}-(-?\d+(\.\d+)?)", name)
    return _NORMRELU if kink and abs(float(kink[1])) <= _FURTHEST_KINK else name


def is_known(name: str) -> bool:
    """Return whether `get` knows an activation of this name."""
    return base_name(name) in _REGISTRY


@cache
def get(name: str | Activation) -> Activation:
    """Return the activation of a name, or the given `Activation`.

    Besides registered names there are ``leaky_relu-0.2`` with another slope than 0.01,
    ``normrelu--1`` with the kink at -1 (up to 6 from 0), and ``normalized_<name>``.

    Raises `UnknownActivationError`, naming the closest known name and all of them.
    """
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise UnknownActivationError(f"{name!r}: give a name, as 'relu', or an Activation")
    if not is_known(name):
        known = [*names(), *(NORMALIZED + base for base in names())]
        close = difflib.get_close_matches(name.lower(), known, n=1)
        advice = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownActivationError(
            f"unknown activation {name!r}; {advice}known: {', '.join(names())}, "
            f"{_LEAKY}-<slope>, {_NORMRELU}-<kink>, {NORMALIZED}<name>"
        )
    if name.startswith(NORMALIZED):
        return normalized(get(name.removeprefix(NORMALIZED)))
    if name in _REGISTRY:
        return _REGISTRY[name]
    family, parameter = name.split("-", maxsplit=1)
    return (leaky_relu if family == _LEAKY else normrelu)(float(parameter), name=name)


def normalized(activation: Activation) -> Activation:
    """Return (σ - μ) / s, which has mean 0 and variance 1 under N(0, 1), with gain 1.

    This is section 2 of agarwal2021deep; μ and s come from quadrature.

    Raises `ActivationError` if σ is constant or has another derivative.
    """
    activation.require_derivative()
    mean = activation.expectation(np.asarray)
    scale = math.sqrt(activation.expectation(lambda values: (values - mean) ** 2))
    if scale <= 1e-12 * abs(mean):
        raise ActivationError(f"{activation.name}: a constant cannot be normalised")
    function, derivative = activation.function, activation.derivative
    centred = abs(mean) < 1e-15 * scale
    return replace(
        activation,
        name=NORMALIZED + activation.name,
        function=lambda z: (function(z) - mean) / scale,
        derivative=lambda z: derivative(z) / scale,
        homogeneous=activation.homogeneous and centred,
        negative_slope=activation.negative_slope if centred else None,
        exact_gain=1.0,
    )


def leaky_relu(slope: float, *, name: str) -> Activation:
    """Return max(z, 0) + slope · min(z, 0); slope 0 is ReLU and slope 1 the identity."""
    return Activation(
        name,
        function=lambda z: z.relu() + slope * z.clamp(max=0),
        derivative=lambda z: _step(z) * (1 - slope) + slope,
        homogeneous=True,
        kinks=() if slope == 1 else (0.0,),
        negative_slope=slope,
        exact_gain=math.sqrt(2 / (1 + slope**2)),
    )


def normrelu_constants(kink: float) -> tuple[float, float]:
    """Return λ and b of `normrelu`, from the moments of a truncated normal variable.

    >>> [round(number, 4) for number in normrelu_constants(-1.5975)]
    [1.05, -1.6209]
    """
    density = math.exp(-(kink**2) / 2) / math.sqrt(2 * math.pi)
    above, below = (math.erfc(end / math.sqrt(2)) / 2 for end in (kink, -kink))
    offset = above * kink - density
    variance = above * below * kink**2 + (above - below) * density * kink + above - density**2
    return 1 / math.sqrt(variance), offset


def normrelu(kink: float, *, name: str | None = None) -> Activation:
    """Return λ (max(z - kink, 0) + b) of mean 0 and variance 1 (agarwal2021deep, Eq. (4))."""
    scale, offset = normrelu_constants(kink)
    return Activation(
        name or f"{_NORMRELU}-{kink:g}",
        function=lambda z: scale * ((z - kink).relu() + offset),
        derivative=lambda z: scale * _step(z - kink),
        kinks=(kink,),
        exact_gain=1.0,
    )


def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers activations; the same file again changes nothing.

    Raises `UserError` if there is no such file, it fails, or it registers nothing.
    """
    key = Path(path).resolve()
    if key in _PLUGINS:
        return
    before = _REGISTRY.copy()
    try:
        run_file(path)
    except UserError:  # or the names were taken when the file is mended
        _REGISTRY.clear()
        _REGISTRY.update(before)
        get.cache_clear()
        raise
    if names() == tuple(before):
        raise ActivationError(f"{path}: registers no activation; call register(Activation(...))")
    _PLUGINS.add(key)


def load(names: Iterable[str], files: Iterable[str | Path]) -> dict[str, Activation]:
    """Return activations by name, after loading files that register some, see `load_plugin`."""
    for path in files:
        load_plugin(path)
    return {name: get(name) for name in names}


# Klambauer, Unterthiner, Mayr & Hochreiter 2017, "Self-Normalizing Neural Networks", Eq. (14)
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _step(z: Tensor) -> Tensor:
    return (z > 0).to(z.dtype)


def _selu_derivative(z: Tensor) -> Tensor:
    return _SELU_SCALE * (_step(z) + (1 - _step(z)) * _SELU_ALPHA * z.clamp(max=0).exp())


def _gelu_derivative(z: Tensor) -> Tensor:
    density = (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
    return 0.5 * (1 + (z / math.sqrt(2)).erf()) + z * density


for _activation in (
    replace(leaky_relu(0, name="relu"), function=lambda z: z.relu(), derivative=_step),
    replace(
        leaky_relu(1, name="linear"), function=lambda z: z, derivative=lambda z: z.new_ones(z.shape)
    ),
    leaky_relu(0.01, name=_LEAKY),
    Activation(
        "erf",
        lambda z: z.erf(),
        lambda z: (-z.square()).exp() * (2 / math.sqrt(math.pi)),
        exact_gain=math.sqrt(math.pi / 2 / math.asin(2 / 3)),
    ),
    Activation("tanh", lambda z: z.tanh(), lambda z: 1 - z.tanh().square()),
    Activation("gelu", lambda z: 0.5 * z * (1 + (z / math.sqrt(2)).erf()), _gelu_derivative),
    Activation(
        "selu",
        lambda z: _SELU_SCALE * (z.relu() + _SELU_ALPHA * z.clamp(max=0).expm1()),
        _selu_derivative,
        kinks=(0.0,),
    ),
    Activation("sigmoid", lambda z: z.sigmoid(), lambda z: z.sigmoid() * (-z).sigmoid()),
    Activation("softplus", lambda z: z.logaddexp(0 * z), lambda z: z.sigmoid()),
    normrelu(-1.5975, name=_NORMRELU),  # the kink that Section 7 chooses
):
    register(_activation)

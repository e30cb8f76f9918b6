"""Activations by name: function, derivative, scale, and what their kernels need to know.

A layer of width m computes gain / sqrt(m) · σ(W α) with standard normal W (liu2023relu, Eqs. (1)
and (3)). ``gain`` is 1 / sqrt(E σ(z)²) for z ~ N(0, 1): sqrt(2) for ReLU and 1 for the identity, so
that an input of norm 1 keeps its norm through layers of infinite width.

Functions call methods of the tensors they are given. Those of this package ask for no more than
`Elementwise` has, and are evaluated without torch outside of networks.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.elementwise import Elementwise
from ntk_conditioning.networks.plugins import PluginError, run_file

if TYPE_CHECKING:
    from torch import Tensor

    Function = Callable[[Tensor], Tensor]

Array = NDArray[np.float64]

#: The largest error of cosines with which a run computes kernels at infinite width.
TOLERATED = 0.01

# Where a derivative is compared with a difference quotient, and how far they may differ. Wrong
# derivatives differ in the first digits; steps of 1e-5 leave 1e-10 for functions of moderate slope.
# No point is where kinks are likely, so that one that is not declared is not taken for a mistake.
_CHECKED_AT = np.linspace(-4.0137, 4.0213, 80)
_CHECK_STEP, _CHECK_TOLERANCE = 1e-5, 1e-3


class UnknownActivationError(UserError):
    """No activation has this name."""


class ActivationError(UserError):
    """An activation cannot be registered or does not compute."""


class ShiftedReLU(NamedTuple):
    """σ(z) = scale · (max(z - kink, 0) + offset)."""

    scale: float
    kink: float
    offset: float


class DualErrors(NamedTuple):
    """How far cosines of kernels at infinite width may be wrong, for samples of norms about 1."""

    one_norm: float
    different_norms: float


@dataclass(frozen=True)
class Activation:
    """An activation σ: ``function`` and ``derivative`` map tensors elementwise.

    ``homogeneous``: σ(c z) = c σ(z) for c > 0. ``kinks``: where the derivative jumps.
    ``negative_slope``: σ is the leaky ReLU of this slope. ``exact_gain``: the gain where it is
    known without quadrature. ``on_arrays``: both work on `Elementwise`, too.
    """

    name: str
    function: Function = field(repr=False)
    derivative: Function = field(repr=False)
    homogeneous: bool = False
    kinks: tuple[float, ...] = ()
    negative_slope: float | None = None
    shifted_relu: ShiftedReLU | None = None
    exact_gain: float | None = None
    on_arrays: bool = False

    def __post_init__(self) -> None:
        try:
            kinks = tuple(map(float, self.kinks))  # a list could not be hashed
        except (TypeError, ValueError):
            kinks = (math.nan,)
        if not all(map(math.isfinite, kinks)):
            raise ActivationError(f"{self.name}: kinks is {self.kinks!r}; give numbers, as (0, 1)")
        object.__setattr__(self, "kinks", kinks)
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", self.name):
            raise ActivationError(
                f"{self.name!r} is no name for an activation: it becomes a folder, so use "
                "lower-case letters, digits, _ . -"
            )

    @cached_property
    def gain(self) -> float:
        """1 / sqrt(E σ(z)²) for z ~ N(0, 1), by quadrature where no exact value was given.

        Raises `ActivationError` if σ is zero or does not compute, or the derivative is not its own.
        """
        if self.exact_gain is not None:
            return self.exact_gain
        self.require_derivative()
        return self.measured_gain()

    def measured_gain(self) -> float:
        """Return the gain by quadrature; `ActivationError` if σ is zero."""
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
        """Compare the derivative with difference quotients; `ActivationError` if they differ."""
        z = self.checked_at()
        if found := wrong_slope(z, self.slopes(z), self.values):
            at, slope, rise = found
            raise ActivationError(
                f"{self.name}: derivative({at:g}) is {slope:.6g}, but function "
                f"rises by {rise:.6g} there"
            )

    def checked_at(self) -> Array:
        """Return where derivatives are compared with difference quotients: away from kinks."""
        z = _CHECKED_AT
        if self.kinks:
            z = z[np.abs(np.subtract.outer(z, self.kinks)).min(axis=1) > 2 * _CHECK_STEP]
        return z

    def values(self, z: Array) -> Array:
        """Return σ(z) of a float64 array of any shape."""
        return self._apply(self.function, z)

    def slopes(self, z: Array) -> Array:
        """Return σ'(z) of a float64 array of any shape."""
        return self._apply(self.derivative, z)

    def _apply(self, function: Function, z: Array) -> Array:
        found: Any
        if self.on_arrays:
            with np.errstate(all="ignore"):  # what is not finite is told below
                found = function(z.view(Elementwise))  # type: ignore[arg-type]
        else:
            import torch  # heavy, and only activations of the user's own need it here

            with torch.no_grad():  # they may have parameters
                found = function(torch.from_numpy(np.ascontiguousarray(z)))
        if found.shape != z.shape or str(found.dtype).removeprefix("torch.") != "float64":
            raise ActivationError(
                f"{self.name}: maps float64 of shape {z.shape} to {found.dtype} of shape "
                f"{tuple(found.shape)}; give elementwise functions"
            )
        values: Array = np.asarray(found)
        if not np.isfinite(values).all():
            where = z[~np.isfinite(values)].flat[0]
            raise ActivationError(f"{self.name}: not finite at z = {where:.6g}")
        return values


# --- expectations under N(0, 1) -------------------------------------------------------------------


@lru_cache(maxsize=256)
def gaussian_rule(
    kinks: tuple[float, ...] = (), *, order: int = 24, reach: float = 12.0, halvings: int = 12
) -> tuple[Array, Array]:
    """Return nodes and weights: Gauss-Legendre of an order on panels that halve towards 0.

    Panels have edges at 0 and ``kinks``. An analytic function whose singularities lie on the
    imaginary axis, however close to 0 (tanh(25 z), say), is as smooth on each panel [a, 2a] as
    1 / z is. They end at ``reach``; the density at 12 is 5e-32. The innermost panel, after
    ``halvings``, does for singularities no closer than some 1e-4.
    """
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.concatenate([[0.0], reach * 2.0 ** np.arange(-halvings, 1)])
    edges = np.union1d(edges, [abs(kink) for kink in kinks if abs(kink) < edges[-1]])
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (1 + nodes)).reshape(-1)
    mass = (half * weights).reshape(-1) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.concatenate([-z[::-1], z]), np.concatenate([mass[::-1], mass])


def gaussian_nodes() -> Array:
    """Return the points (m,) at which `gaussian_mean` wants a function's values."""
    return gaussian_rule()[0]


def gaussian_mean(values: Array) -> Array:
    """Return E h(z), z ~ N(0, 1), from values (..., m) of h, smooth on either side of 0."""
    return np.asarray(values @ gaussian_rule()[1])


# --- names ----------------------------------------------------------------------------------------

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
    """Return the registered name that a spelling refers to, or the spelling itself."""
    name = name.removeprefix(NORMALIZED)
    if re.fullmatch(rf"{_LEAKY}-\d+(\.\d+)?", name):
        return _LEAKY
    kink = re.fullmatch(rf"{_NORMRELU}-(-?\d+(\.\d+)?)", name)
    return _NORMRELU if kink and abs(float(kink[1])) <= _FURTHEST_KINK else name


def is_known(name: str) -> bool:
    """Return whether `get` would find an activation of this name.

    >>> is_known("leaky_relu-0.2"), is_known("normalized_tanh"), is_known("rellu")
    (True, True, False)
    """
    return base_name(name) in _REGISTRY


@cache
def get(name: str | Activation) -> Activation:
    """Return the activation of a name, or the one that is given.

    Besides registered names there are ``leaky_relu-0.2`` with another slope than 0.01,
    ``normrelu--1`` with the kink at -1 (up to 6 from 0), and ``normalized_<name>``, see
    `normalized`.

    Raises `UnknownActivationError`, naming the closest known name, or all of them.

    >>> round(get("relu").gain ** 2, 12)
    2.0
    """
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise UnknownActivationError(
            f"the activation is a {type(name).__name__}: give a name, as 'relu', or an Activation"
        )
    if not is_known(name):
        known = [*names(), *(NORMALIZED + each for each in names())]
        close = difflib.get_close_matches(name, known, n=1)
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
    if family == _LEAKY:
        return leaky_relu(float(parameter), name=name)
    return normrelu(float(parameter), name=name)


def wrong_slope(
    z: Array, slopes: Array, values: Callable[[Array], Array]
) -> tuple[float, float, float] | None:
    """Return the first z at which a slope is not that of the values, with it and the true one."""
    rises, finer = (
        (values(z + step) - values(z - step)) / (2 * step)
        for step in (_CHECK_STEP, _CHECK_STEP / 10)  # the finer one for steep activations
    )
    for at, slope, rise, fine in zip(z, slopes, rises, finer, strict=True):
        wrong = min(abs(slope - rise), abs(slope - fine))
        if wrong > _CHECK_TOLERANCE * max(abs(rise), 1e-3):
            return float(at), float(slope), float(rise)
    return None


def normalized(activation: Activation) -> Activation:
    """Return (σ - μ) / s, which has mean 0 and variance 1 under N(0, 1), with gain 1.

    μ and s come from quadrature (Agarwal, Awasthi & Kale 2021, "A Deep Conditioning Treatment of
    Neural Networks", section 2).

    Raises `ActivationError` if σ is constant.
    """
    mean = activation.expectation(np.asarray)
    scale = math.sqrt(activation.expectation(lambda values: (values - mean) ** 2))
    if scale <= 1e-12 * abs(mean):
        raise ActivationError(f"{activation.name}: a constant cannot be normalised")
    function, derivative = activation.function, activation.derivative
    centred = abs(mean) < 1e-15 * scale
    shifted_relu = activation.shifted_relu
    if shifted_relu is not None:
        factor, kink, offset = shifted_relu
        shifted_relu = ShiftedReLU(factor / scale, kink, offset - mean / factor)
    return replace(
        activation,
        name=NORMALIZED + activation.name,
        function=lambda z: (function(z) - mean) / scale,
        derivative=lambda z: derivative(z) / scale,
        homogeneous=activation.homogeneous and centred,
        negative_slope=activation.negative_slope if centred else None,
        shifted_relu=shifted_relu,
        exact_gain=1.0,
    )


def leaky_relu(slope: float, *, name: str) -> Activation:
    """Return max(z, 0) + slope · min(z, 0); slope 0 is ReLU and slope 1 the identity."""
    return Activation(
        name,
        function=lambda z: z.clamp(min=0) + slope * z.clamp(max=0),
        derivative=lambda z: _step(z) * (1 - slope) + slope,
        homogeneous=True,
        kinks=() if slope == 1 else (0.0,),
        negative_slope=slope,
        exact_gain=math.sqrt(2 / (1 + slope**2)),
        on_arrays=True,
    )


def normrelu(kink: float, *, name: str | None = None) -> Activation:
    """Return λ (max(z - c, 0) + b), which has mean 0 and variance 1; ``kink`` is c.

    λ and b follow from the moments of a truncated normal variable (Agarwal, Awasthi & Kale 2021,
    Eq. (4) and Appendix I).

    >>> [round(each, 4) for each in normrelu(-1.5975).shifted_relu]
    [1.05, -1.5975, -1.6209]
    """
    density = math.exp(-(kink**2) / 2) / math.sqrt(2 * math.pi)
    above, below = (math.erfc(each / math.sqrt(2)) / 2 for each in (kink, -kink))
    offset = above * kink - density
    variance = above * below * kink**2 + (above - below) * density * kink + above - density**2
    scale = 1 / math.sqrt(variance)
    return Activation(
        name or f"{_NORMRELU}-{kink:g}",
        function=lambda z: scale * ((z - kink).clamp(min=0) + offset),
        derivative=lambda z: scale * _step(z - kink),
        kinks=(kink,),
        shifted_relu=ShiftedReLU(scale, kink, offset),
        exact_gain=1.0,
        on_arrays=True,
    )


def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers activations; the same file again changes nothing.

    Raises `ActivationError` if there is no such file, it fails, or it registers nothing.
    """
    key = Path(path).resolve()
    if key in _PLUGINS:
        return
    before = dict(_REGISTRY)
    try:
        run_file(path)
    except PluginError as error:
        _REGISTRY.clear()
        _REGISTRY.update(before)
        raise ActivationError(str(error)) from error
    if _REGISTRY.keys() == before.keys():
        raise ActivationError(f"{path}: registers no activation; call register(Activation(...))")
    _PLUGINS.add(key)


def load(names: Iterable[str], files: Iterable[str | Path]) -> dict[str, Activation]:
    """Return activations by name, among them those that files register, see `load_plugin`."""
    for path in files:
        load_plugin(path)
    return {name: get(name) for name in names}


# --- the registry ---------------------------------------------------------------------------------

# Klambauer, Unterthiner, Mayr & Hochreiter 2017, "Self-Normalizing Neural Networks", Eq. (14)
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _step(z: Tensor) -> Tensor:
    return (z > 0).to(z.dtype)


def _selu(z: Tensor) -> Tensor:
    return _SELU_SCALE * (z.clamp(min=0) + _SELU_ALPHA * z.clamp(max=0).expm1())


def _selu_derivative(z: Tensor) -> Tensor:
    return _SELU_SCALE * (_step(z) + (1 - _step(z)) * _SELU_ALPHA * z.clamp(max=0).exp())


def _gelu(z: Tensor) -> Tensor:
    return 0.5 * z * (1 + (z / math.sqrt(2)).erf())


def _gelu_derivative(z: Tensor) -> Tensor:
    density = (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
    return 0.5 * (1 + (z / math.sqrt(2)).erf()) + z * density


def _erf_derivative(z: Tensor) -> Tensor:
    return (-z.square()).exp() * (2 / math.sqrt(math.pi))


_ERF_GAIN = math.sqrt(math.pi / 2 / math.asin(2 / 3))
_RELU, _LINEAR = leaky_relu(0, name="relu"), leaky_relu(1, name="linear")
for _activation in (
    replace(_RELU, function=lambda z: z.clamp(min=0), derivative=_step),
    replace(_LINEAR, function=lambda z: z, derivative=lambda z: z.new_ones(z.shape)),
    leaky_relu(0.01, name=_LEAKY),
    Activation("erf", lambda z: z.erf(), _erf_derivative, exact_gain=_ERF_GAIN),
    Activation("tanh", lambda z: z.tanh(), lambda z: 1 - z.tanh().square()),
    Activation("gelu", _gelu, _gelu_derivative),
    Activation("selu", _selu, _selu_derivative, kinks=(0.0,)),
    Activation("sigmoid", lambda z: z.sigmoid(), lambda z: z.sigmoid() * (-z).sigmoid()),
    # not z.abs(), the second derivative of which goes through torch's compiler
    Activation(
        "softplus", lambda z: z.clamp(0) + (-z * z.sign()).exp().log1p(), lambda z: z.sigmoid()
    ),
    normrelu(-1.5975, name=_NORMRELU),  # the kink that Section 7 chooses
):
    register(replace(_activation, on_arrays=True))

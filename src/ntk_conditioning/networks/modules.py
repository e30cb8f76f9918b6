"""Networks of torch's modules, by name: see `architectures.MODELS`.

Weights come from a NumPy generator: one seed gives one network on every device. fc, resnet and vit
are in the standard parameterisation; docs/agarwal2021deep.md says what we chose where the paper is
silent. The others have the NTK parameterisation of `networks.mlp`: weights and biases are N(0, 1),
and factors stand in the forward pass. Depth L counts hidden layers, of a resnet all, of vit blocks.
"""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init
from torch.optim.swa_utils import update_bn

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import (
    HEADS,
    MODELS,
    Model,
    blocks,
    patch_grid,
    size_problem,
)
from ntk_conditioning.networks.layers import (
    Attention,
    Combine,
    Elementwise,
    Learnt,
    Map,
    Residual,
    patches,
    thinned,
)
from ntk_conditioning.networks.mlp import draw_weights

#: Part of the learning rate that Fixup's scalars get, as in its authors' code.
SCALAR_RATE = 0.1

#: The factor β of mlp_bias's biases, and the deviation of vit's positions.
BIAS_SCALE, POSITION_SCALE = 0.1, 0.02


class Network(nn.Module):
    """A network: ``body`` makes the last hidden representation (n, m), ``head`` the outputs."""

    def __init__(self, body: Iterable[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(*body), head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the outputs (n, c) and the representations (n, m), if the network has any."""
        u = self.body(x)
        return self.head(u), u

    def rate_groups(self) -> dict[float, list[nn.Parameter]]:
        """Return trainable parameters by the factor of their learning rate, in a fixed order."""
        learnt = [module.value for module in self.modules() if isinstance(module, Learnt)]
        slow = {value for value in learnt if value.ndim == 0}
        groups: dict[float, list[nn.Parameter]] = {1.0: [], SCALAR_RATE: []}
        for parameter in self.parameters():  # a shared one once
            if parameter.requires_grad:
                groups[SCALAR_RATE if parameter in slow else 1.0].append(parameter)
        return {factor: parameters for factor, parameters in groups.items() if parameters}


class MlpModule(Network):
    """A network of `networks.mlp` as a torch module, with as many outputs as its last weights."""

    def __init__(self, weights: Iterable[Tensor], activation: Activation) -> None:
        super().__init__([], nn.Identity())
        self.weights, self.activation = nn.ParameterList(weights), activation
        if len(self.weights) > 1:  # its quadrature must not first run inside a torch.func transform
            _ = activation.gain

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        *hidden, last = self.weights
        for weight in hidden:
            scale = self.activation.gain / math.sqrt(len(weight))
            # of `scale * value` torch takes the forward derivative five times as slowly
            x = torch.ops.aten.mul.Scalar(self.activation.function(x @ weight.T), scale)
        return x @ last.T, None


def make_network(
    name: str,
    rng: np.random.Generator,
    *,
    d: int,
    image: tuple[int, int, int] | None = None,
    depth: int,
    width: int,
    activation: Activation | str,
    outputs: int,
    dtype: torch.dtype,
) -> Network:
    """Return a network at initialisation, on the CPU, by a name in `MODELS`.

    It takes samples (n, d) of ``dtype``, or images (n, colours, height, width) if it needs them;
    ``image`` is their height, width and colours. For depth and width see the module's docstring;
    ``activation`` may be a name; ``rng`` is a NumPy generator, from which all weights are drawn.

    Raises `UserError` for an unknown name or a size that it cannot have.
    """
    if name not in MODELS:
        raise UserError(f"no network {name!r}; built in are {', '.join(MODELS)}")
    if problem := size_problem(name, depth=depth, width=width):
        raise UserError(problem)
    model = MODELS[name]
    sigma, shape = activations.get(activation), image or (1, 1, d)
    builder = _Builder(model, rng, sigma, dtype, d, shape, depth, width, outputs)
    build: Callable[[], Network] = getattr(builder, model.family)
    return build()


def has_batch_norm(module: nn.Module) -> bool:
    """Return whether samples interact in training, by batch normalisation."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules())


def freeze_statistics(module: nn.Module, x: Tensor) -> None:
    """Put a module into evaluation mode, its batch norms with the statistics of ``x`` (n, ...).

    These are the means and (unbiased) variances of what each layer sees of the samples.

    >>> norm = nn.BatchNorm1d(1, dtype=torch.float64)
    >>> freeze_statistics(norm, torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    >>> norm.running_mean.tolist(), norm.running_var.tolist(), norm.training
    ([2.0], [2.0], False)
    """
    update_bn([x], module)
    module.eval()


@dataclass(frozen=True)
class _Builder:
    """Builds networks, by a method for each family; weights are drawn layer after layer.

    Layers before a normalisation have no biases.
    """

    model: Model
    rng: np.random.Generator
    activation: Activation
    dtype: torch.dtype
    d: int
    image: tuple[int, int, int]
    depth: int
    width: int
    outputs: int

    def mlp(self) -> Network:
        """Return a network of `networks.mlp`, its weights in memory of torch's."""
        size = {"depth": self.depth, "width": self.width, "outputs": self.outputs}
        weights = draw_weights(self.d, **size, generator=self.rng)
        return MlpModule([w.to(self.dtype, copy=True) for w in weights], self.activation)

    def mlp_bias(self) -> Network:
        """Return f = w α_L + β b_out with α_l = gain/√m σ(W_l α_(l-1) + β b_l), α_0 = x.

        β is `BIAS_SCALE`; every layer has its own b ~ N(0, 1). See `kernels.infinite_network`.
        """

        def affine(inputs: int, units: int) -> list[nn.Module]:
            layer = self._layer(nn.Linear, inputs, units)
            return [layer, Learnt(lambda x, b: x + BIAS_SCALE * b, self._normal(units))]

        body: list[nn.Module] = [nn.Flatten()]
        for inputs, units in pairwise([self.d, *[self.width] * self.depth]):
            scale = _scale(self.activation.gain / math.sqrt(units))
            body += [*affine(inputs, units), Elementwise(self.activation), scale]
        return Network(body, nn.Sequential(*affine(self.width, self.outputs)))

    def residual_mlp(self) -> Network:
        """Return f = w u_L / √m with u_l = u_(l-1) + s gain/√m V_l σ(u_(l-1)), u_0 = W_0 x.

        The scale s of a branch is 1, or 1/√L if it is scaled, see `kernels.infinite_network`.
        """
        width, branches = self.width, self.depth if self.model.scaled else 1
        scale = _scale(self.activation.gain / math.sqrt(width * branches))
        body: list[nn.Module] = [nn.Flatten(), self._layer(nn.Linear, self.d, width)]
        for _ in range(self.depth):
            layer = self._layer(nn.Linear, width, width)
            body.append(Residual(Elementwise(self.activation), layer, scale))
        head = self._layer(nn.Linear, width, self.outputs)
        return Network([*body, _scale(1 / math.sqrt(width))], head)

    def conv(self) -> Network:
        """Return f = w·α_L / √pixels with α_l = gain/√m σ(W_l * α_(l-1) / 3), α_0 = x.

        Convolutions are of 3 × 3 pixels, zeros around the image, and m = ``width`` channels. If it
        pools, f is w on the mean of α_L over pixels. See `kernels.infinite_convolutional`.
        """
        height, breadth, colours = self.image
        body: list[nn.Module] = []
        for inputs, channels in pairwise([colours, *[self.width] * self.depth]):
            convolution = self._layer(nn.Conv2d, inputs, channels, 3, padding=1)
            scale = _scale(self.activation.gain / math.sqrt(channels))
            body += [convolution, _scale(1 / 3), Elementwise(self.activation), scale]
        if self.model.pool:
            body, top = [*body, _mean(-2, -1)], self.width
        else:
            body = [*body, nn.Flatten(), _scale(1 / math.sqrt(height * breadth))]
            top = self.width * height * breadth
        return Network(body, self._layer(nn.Linear, top, self.outputs))

    def fc(self) -> Network:
        """Return a network with weights N(0, gain²/m) on m activations, N(0, 1/d) on x."""
        squared, plain = 1.0, self.model.normalization == "none"
        body: list[nn.Module] = [nn.Flatten()]
        for inputs, units in pairwise([self.d, *[self.width] * self.depth]):
            body += [self._dense(inputs, units, squared, bias=plain), self._normalization(units)]
            body.append(Elementwise(self.activation))
            squared = self.activation.gain**2
        return Network(body, self._dense(self.width, self.outputs, squared))

    def vit(self) -> Network:
        """Return a small Vision Transformer (Dosovitskiy et al. 2021) of L blocks.

        Patches (`architectures.patch_grid`) are embedded and get learnt positions. A block is
        attention, then an MLP with twice the units, each a residual branch after a layer
        normalisation. The outputs see the mean over tokens after a last one. Weights on m units are
        N(0, 1/m), on activations N(0, gain²/m), positions N(0, 0.02²), and biases zero.
        """
        (height, breadth, colours), width = self.image, self.width
        side, tokens = patch_grid(height, breadth)

        def branch(*layers: nn.Module) -> nn.Module:
            return Residual(self._normalization(width), *layers)

        body = [Map(partial(patches, side=side)), self._dense(side**2 * colours, width)]
        body.append(Learnt(operator.add, POSITION_SCALE * self._normal(tokens, width)))
        for _ in range(self.depth):
            attention = Attention(*(self._dense(width, width) for _ in range(4)), heads=HEADS)
            inner, sigma = self._dense(width, 2 * width), Elementwise(self.activation)
            outer = self._dense(2 * width, width, self.activation.gain**2)
            body += [branch(attention), branch(inner, sigma, outer)]
        body += [self._normalization(width), _mean(1)]
        return Network(body, self._dense(width, self.outputs))

    def resnet(self) -> Network:
        """Return He et al.'s (2016, section 4.2) network for CIFAR, or one without normalisation.

        Other depths than their 6 n + 2 are those of `architectures.blocks`. Weights are
        N(0, gain²/(9 channels out)), as in agarwal2021deep, section 7, and He et al.

        With Fixup (Zhang et al. 2019, section 3) the last convolution of each of the L branches and
        the classifier begin at zero, the others of the m = 2 in a branch are scaled by
        L^(-1/(2m-2)); a scalar bias stands before every convolution, activation and the classifier,
        and a scalar factor at a branch's end.
        """
        fixup, squared = self.model.fixup, self.activation.gain**2
        plain = self.model.normalization == "none" and not fixup
        layout, sigma = [*blocks(self.width, self.depth)], Elementwise(self.activation)
        inner, outer = (1 / max(1, len(layout)), 0.0) if fixup else (1.0, 1.0)

        def scalar(combine: Combine, value: float) -> nn.Module:
            return (
                Learnt(combine, torch.tensor(value, dtype=self.dtype)) if fixup else nn.Identity()
            )

        def bias() -> nn.Module:
            return scalar(operator.add, 0.0)

        def convolve(inputs: int, units: int, stride: int = 1, factor: float = 1.0) -> nn.Module:
            options = {"variance": factor * squared / 9 / units, "bias": plain}
            options |= {"stride": stride, "padding": 1}
            layer: nn.Module = self._layer(nn.Conv2d, inputs, units, 3, **options)
            return layer if fixup else nn.Sequential(layer, self._normalization(units, images=True))

        body, top = [convolve(self.image[2], self.width), bias(), sigma], self.width
        for inputs, top, stride in layout:
            branch = [bias(), convolve(inputs, top, stride, inner), bias(), sigma]
            branch += [bias(), convolve(top, top, factor=outer), scalar(operator.mul, 1.0), bias()]
            shortcut = Map(partial(thinned, stride=stride, added=top - inputs))
            body += [Residual(*branch, shortcut=shortcut), sigma]
        body += [_mean(-2, -1), bias()]
        return Network(body, self._dense(top, self.outputs, outer * squared))

    def _normal(self, *shape: int) -> Tensor:
        return torch.from_numpy(self.rng.standard_normal(shape)).to(self.dtype)

    def _dense(self, inputs: int, units: int, squared: float = 1.0, *, bias: bool = True) -> Any:
        """Return a layer with weights N(0, squared / inputs) and biases of zero."""
        return self._layer(nn.Linear, inputs, units, variance=squared / inputs, bias=bias)

    def _layer(self, kind: Any, *shape: int, variance: float = 1.0, **options: Any) -> Any:
        """Return a layer with weights N(0, variance), by default without biases."""
        # skip_init: torch draws no weights
        layer = skip_init(kind, *shape, dtype=self.dtype, **{"bias": False} | options)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            if variance:
                weights = self.rng.standard_normal(layer.weight.shape)
                layer.weight.copy_(torch.from_numpy(weights * math.sqrt(variance)))
        return layer

    def _normalization(self, units: int, *, images: bool = False) -> nn.Module:
        """Return a normalisation; of images, "layer" has one scale and shift for each channel."""
        norms: dict[str, Callable[..., nn.Module]] = {
            "batch": nn.BatchNorm2d if images else nn.BatchNorm1d,
            "layer": partial(nn.GroupNorm, 1) if images else nn.LayerNorm,
            "none": nn.Identity,
        }
        return norms[self.model.normalization](units, dtype=self.dtype)


def _scale(factor: float) -> nn.Module:
    return Map(lambda x: x * factor)


def _mean(*axes: int) -> nn.Module:
    return Map(lambda x: x.mean(axes))

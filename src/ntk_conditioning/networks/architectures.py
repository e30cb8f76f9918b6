"""Kinds of networks that are trained: their names, the depths that they have, and their sizes.

Nothing here imports torch: a workflow asks before it starts anything. See `networks.modules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["mlp", "fc", "resnet"]
Normalization = Literal["none", "batch", "layer"]

#: Stages of a resnet, each with so many blocks of two layers; two more layers are at its ends.
STAGES = 3
_LAYERS_PER_STEP, _ENDS = 2 * STAGES, 2


@dataclass(frozen=True)
class Model:
    """A kind of network.

    ``normalization`` stands before every activation, or after it if ``after_activation``. ``fixup``
    has the initialisation, scalar biases and multipliers of Zhang, Dauphin & Ma (2019).
    """

    family: Family
    normalization: Normalization = "none"
    after_activation: bool = False
    fixup: bool = False

    @property
    def by_modules(self) -> bool:
        """Whether torch's modules are trained, in the standard parameterisation."""
        return self.family != "mlp"

    @property
    def needs_images(self) -> bool:
        """Whether samples must be images."""
        return self.family == "resnet"


#: By the names in tables.
MODELS = {
    "mlp": Model("mlp"),
    "fc": Model("fc"),
    "fc_batch_norm": Model("fc", "batch"),
    "fc_layer_norm": Model("fc", "layer"),
    "fc_layer_norm_after": Model("fc", "layer", after_activation=True),
    "resnet": Model("resnet"),
    "resnet_batch_norm": Model("resnet", "batch"),
    "resnet_layer_norm": Model("resnet", "layer"),
    "resnet_fixup": Model("resnet", fixup=True),
}


def depth_problem(name: str, depth: int) -> str | None:
    """Return why a kind of network cannot have a depth, with the depths that it has; or None.

    >>> depth_problem("resnet", 32) is None
    True
    >>> depth_problem("resnet", 10)
    'resnet has depths 6 n + 2, such as 8, 14, 20, 32, 110'
    """
    family = MODELS[name].family
    if family == "fc" and depth < 1:
        return f"{name} has a hidden layer or more"
    if family == "resnet" and (depth <= _ENDS or (depth - _ENDS) % _LAYERS_PER_STEP):
        return f"{name} has depths 6 n + 2, such as 8, 14, 20, 32, 110"
    return None


def blocks_per_stage(depth: int) -> int:
    """Return the residual blocks n in each of a resnet's stages; its depth is 6 n + 2."""
    return (depth - _ENDS) // _LAYERS_PER_STEP


@dataclass(frozen=True)
class Sizes:
    """What a network is made of: weights, and per sample multiply-adds and hidden units.

    ``first`` are the multiply-adds of the first layer, which passes no gradient on.
    """

    weights: int
    products: int
    first: int
    units: int


def sizes(
    name: str, *, d: int, width: int, depth: int, outputs: int, image: tuple[int, int, int] | None
) -> Sizes:
    """Return the sizes of a network of `networks.modules`, without biases and normalisation.

    ``image`` is height, width and colours of a sample of ``d`` features, for a resnet.

    >>> sizes("resnet", d=3072, width=16, depth=32, outputs=10, image=(32, 32, 3)).weights
    461872
    """
    if MODELS[name].family == "fc":
        first = d * width
        weights = first + (depth - 1) * width**2 + width * outputs
        return Sizes(weights, weights, first, depth * width)
    if image is None:
        raise ValueError(f"{name} needs the shape of an image")
    height, breadth, channels = image
    weights = products = units = first = 0

    def convolve(into: int) -> int:
        """Count a convolution of 3 x 3 and return its multiply-adds."""
        nonlocal channels, weights, products, units
        kernel_size = 9 * channels * into
        weights += kernel_size
        products += kernel_size * height * breadth
        units += into * height * breadth
        channels = into
        return kernel_size * height * breadth

    first = convolve(width)
    for stage in range(STAGES):
        if stage:
            height, breadth = -(-height // 2), -(-breadth // 2)
        for _ in range(2 * blocks_per_stage(depth)):
            convolve(width << stage)
    top = channels * outputs
    return Sizes(weights + top, products + top, first, units)


#: Weights of all networks that are in training at once, as far as one seed's are not more: with
#: momentum 4 GB of float32.
TURN = 2**29


def seeds_in_turn(weights: float) -> int:
    """Return how many seeds train side by side, of which each has so many weights.

    The others wait for their turn. So even the largest networks fit into a GPU, however many seeds
    there are.

    >>> seeds_in_turn(10 * 461872), seeds_in_turn(288_000_000), seeds_in_turn(10**9)
    (116, 1, 1)
    """
    return max(1, int(TURN // weights))

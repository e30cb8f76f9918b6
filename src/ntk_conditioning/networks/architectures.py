"""Kinds of networks that are trained: their names, the depths that they have, and their sizes.

Nothing here imports torch: a workflow asks before it starts anything. See `networks.modules`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Family = Literal["mlp", "fc", "resnet"]
Normalization = Literal["none", "batch", "layer"]

#: Stages of a resnet, each of which has twice the channels of the one before.
STAGES = 3


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

    >>> depth_problem("resnet", 10)
    'resnet has depths 6 n + 2, such as 8, 14, 20, 32, 110'
    """
    family = MODELS[name].family
    if family == "fc" and depth < 1:
        return f"{name} has a hidden layer or more"
    if family == "resnet" and (depth <= 2 or (depth - 2) % (2 * STAGES)):
        return f"{name} has depths 6 n + 2, such as 8, 14, 20, 32, 110"
    return None


def blocks(width: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """Yield the channels into and out of every residual block, and its stride.

    There are three stages of n blocks of two layers; the depth is 6 n + 2.
    """
    inputs = width
    for stage in range(STAGES):
        for block in range((depth - 2) // (2 * STAGES)):
            yield inputs, width << stage, 2 if stage and not block else 1
            inputs = width << stage


@dataclass(frozen=True)
class Sizes:
    """What a network is made of: weights, and per sample multiply-adds and hidden units."""

    weights: int
    products: int
    first: int  # multiply-adds of the first layer, which passes no gradient on
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
    height, breadth, colours = image
    layers = [(9 * colours * width, height * breadth, width)]  # weights, places, channels out
    for inputs, channels, stride in blocks(width, depth):
        height, breadth = -(-height // stride), -(-breadth // stride)
        layers += ((9 * each * channels, height * breadth, channels) for each in (inputs, channels))
    products = [weights * places for weights, places, _ in layers]
    head = layers[-1][2] * outputs
    return Sizes(
        weights=sum(weights for weights, _, _ in layers) + head,
        products=sum(products) + head,
        first=products[0],
        units=sum(places * channels for _, places, channels in layers),
    )


def seeds_in_turn(weights: float) -> int:
    """Return how many seeds, of so many weights each, train side by side while the others wait.

    So even the largest networks fit into a GPU: 2^29 weights take 4 GB in float32 with momentum.

    >>> seeds_in_turn(10 * 461872), seeds_in_turn(288_000_000), seeds_in_turn(10**9)
    (116, 1, 1)
    """
    return max(1, int(2**29 // weights))

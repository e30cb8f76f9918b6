"""Kinds of networks by name: the depths and widths that they have, and their sizes.

Nothing here imports torch: a workflow asks before it starts anything. See `networks.modules`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

#: Stages of a resnet, each of which has twice the channels of the one before.
STAGES = 3

#: Heads of a transformer's attention, and the most patches that it cuts an image into.
HEADS, PATCHES = 4, 64


@dataclass(frozen=True)
class Model:
    """A kind of network.

    ``normalization`` stands before every activation. ``fixup`` has the initialisation, scalar
    biases and multipliers of Zhang, Dauphin & Ma (2019). ``scaled`` multiplies each of L residual
    branches by 1/√L. ``pool`` averages over an image's pixels before the outputs.
    """

    family: Literal["mlp", "mlp_bias", "residual_mlp", "conv", "vit", "fc", "resnet", "own"]
    normalization: Literal["none", "batch", "layer"] = "none"
    fixup: bool = False
    scaled: bool = False
    pool: bool = False

    @property
    def by_modules(self) -> bool:
        """Whether torch's modules are trained, by automatic differentiation."""
        return self.family != "mlp"

    @property
    def needs_images(self) -> bool:
        return self.family in ("conv", "vit", "resnet")


#: By the names in tables.
MODELS = {
    "mlp": Model("mlp"),
    "mlp_bias": Model("mlp_bias"),
    "residual_mlp": Model("residual_mlp"),
    "residual_mlp_scaled": Model("residual_mlp", scaled=True),
    "conv": Model("conv"),
    "conv_pool": Model("conv", pool=True),
    "vit": Model("vit", "layer"),
    "fc": Model("fc"),
    "fc_batch_norm": Model("fc", "batch"),
    "fc_layer_norm": Model("fc", "layer"),
    "resnet": Model("resnet"),
    "resnet_batch_norm": Model("resnet", "batch"),
    "resnet_layer_norm": Model("resnet", "layer"),
    "resnet_fixup": Model("resnet", fixup=True),
}


def kind_of(name: str) -> Model:
    """Return the kind of network of a name; one that is not built in is the user's.

    >>> kind_of("resnet_fixup").fixup, kind_of("mine").family
    (True, 'own')
    """
    return MODELS.get(name, Model("own"))


def size_problem(name: str, *, depth: int = 2, width: int = HEADS) -> str | None:
    """Return why a kind of network cannot have a depth or a width; or None.

    >>> size_problem("resnet", depth=1), size_problem("vit", width=10)
    ('resnet has an even number of layers', 'vit has 4 heads, which share its width evenly')
    """
    family = kind_of(name).family
    if family == "resnet" and (depth < 2 or depth % 2):
        return f"{name} has an even number of layers"
    if family not in ("mlp", "own", "resnet") and depth < 1:
        return f"{name} has a hidden layer or more"
    if family == "vit" and width % HEADS:
        return f"{name} has {HEADS} heads, which share its width evenly"
    return None


def blocks(width: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """Yield the channels into and out of every residual block, and its stride.

    A resnet of depth D has (D - 2) / 2 blocks of two layers. The three stages have equally many, or
    the earlier ones one more: depth 6 n + 2 is He et al.'s (2016), n blocks each.

    >>> [*blocks(16, 8)]
    [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
    """
    number, inputs = (depth - 2) // 2, width
    for stage in range(STAGES):
        for block in range((number + STAGES - 1 - stage) // STAGES):
            yield inputs, width << stage, 2 if stage and not block else 1
            inputs = width << stage


def patch_grid(height: int, width: int) -> tuple[int, int]:
    """Return the side of a transformer's patches, at least 2, and their number, at most `PATCHES`.

    Those at an image's edges may exceed it.

    >>> patch_grid(8, 8), patch_grid(28, 28), patch_grid(33, 32)
    ((2, 16), (4, 49), (5, 49))
    """
    grids = ((side, -(-height // side) * -(-width // side)) for side in count(2))
    return next((side, number) for side, number in grids if number <= PATCHES)


@dataclass(frozen=True)
class Sizes:
    """What a network is made of: weights, and per sample multiply-adds and hidden units."""

    weights: int
    products: int
    units: int


def sizes(
    name: str, *, d: int, width: int, depth: int, outputs: int, image: tuple[int, int, int] | None
) -> Sizes:
    """Return the sizes of a network of `networks.modules`, without biases and normalisation.

    ``image`` is height, width and colours of samples (d,), if needed. `KeyError` for other names.

    >>> sizes("resnet", d=3072, width=16, depth=32, outputs=10, image=(32, 32, 3)).weights
    461872
    """
    kind, products = MODELS[name], 0
    height, breadth, colours = image or (1, 1, d)
    # inputs and units of each layer, and the positions where an image has it
    if not kind.needs_images:
        inner = depth if kind.family == "residual_mlp" else depth - 1
        layers, top = [(d, width, 1), *[(width, width, 1)] * inner], width
    elif kind.family == "vit":
        side, tokens = patch_grid(height, breadth)
        block = [(width, width, tokens)] * 4
        block += [(width, 2 * width, tokens), (2 * width, width, tokens)]
        layers, top = [(side**2 * colours, width, tokens), *block * depth], width
        products = depth * 2 * tokens**2 * width  # of queries, keys and values
    elif kind.family == "conv":
        places = height * breadth
        layers = [(9 * colours, width, places), *[(9 * width, width, places)] * (depth - 1)]
        top = width if kind.pool else width * places
    else:
        layers, top = [(9 * colours, width, height * breadth)], width
        for inputs, top, stride in blocks(width, depth):
            height, breadth = -(-height // stride), -(-breadth // stride)
            layers += [(9 * channels, top, height * breadth) for channels in (inputs, top)]
    weights = sum(inputs * units for inputs, units, _ in layers) + top * outputs
    products += sum(inputs * units * places for inputs, units, places in layers) + top * outputs
    return Sizes(weights, products, sum(units * places for _, units, places in layers))

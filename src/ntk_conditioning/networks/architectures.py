"""Kinds of networks by name: the depths and widths that they have, and their sizes.

Nothing here imports torch: a workflow asks before it starts anything. See `networks.modules`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Family = Literal["mlp", "mlp_bias", "residual_mlp", "conv", "vit", "fc", "resnet", "own"]
Normalization = Literal["none", "batch", "layer"]
Layer = tuple[int, int, int]  # weights, and per sample multiply-adds and units

#: Stages of a resnet, each of which has twice the channels of the one before.
STAGES = 3

#: Heads of a transformer's attention, and the most patches that it cuts an image into.
HEADS, PATCHES = 4, 64


@dataclass(frozen=True)
class Model:
    """A kind of network.

    ``normalization`` stands before every activation, or after it if ``after_activation``. ``fixup``
    has the initialisation, scalar biases and multipliers of Zhang, Dauphin & Ma (2019). ``scaled``
    multiplies each of L residual branches by 1/√L. ``pool`` averages over an image's pixels before
    the outputs.
    """

    family: Family
    normalization: Normalization = "none"
    after_activation: bool = False
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
    "fc_layer_norm_after": Model("fc", "layer", after_activation=True),
    "resnet": Model("resnet"),
    "resnet_batch_norm": Model("resnet", "batch"),
    "resnet_layer_norm": Model("resnet", "layer"),
    "resnet_fixup": Model("resnet", fixup=True),
}

_OWN = Model("own")


def kind_of(name: str) -> Model:
    """Return the kind of network of a name; one that is not built in is the user's.

    >>> kind_of("resnet_fixup").fixup, kind_of("mine").family
    (True, 'own')
    """
    return MODELS.get(name, _OWN)


def size_problem(name: str, *, depth: int = 2, width: int = HEADS) -> str | None:
    """Return why a kind of network cannot have a depth or a width; or None.

    >>> size_problem("resnet", depth=1), size_problem("vit", width=10)
    ('resnet has two layers or more', 'vit has 4 heads, which share its width evenly')
    """
    family = kind_of(name).family
    if family == "resnet" and depth < 2:
        return f"{name} has two layers or more"
    if family not in ("mlp", "own", "resnet") and depth < 1:
        return f"{name} has a hidden layer or more"
    if family == "vit" and width % HEADS:
        return f"{name} has {HEADS} heads, which share its width evenly"
    return None


def blocks(width: int, depth: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the channels into and out of every residual block, its stride and its layers.

    A resnet of depth D has D - 2 layers in blocks of two, at odd depth a single one in the last.
    The three stages have equally many blocks, or the earlier ones one more: depth 6 n + 2 is He et
    al.'s (2016), n blocks each.

    >>> [*blocks(16, 7)]
    [(16, 16, 1, 2), (16, 32, 2, 2), (32, 64, 2, 1)]
    """
    layers, inputs = depth - 2, width
    number = -(-layers // 2)
    for stage in range(STAGES):
        for block in range((number + STAGES - 1 - stage) // STAGES):
            stride = 2 if stage and not block else 1
            yield inputs, width << stage, stride, min(2, layers)
            inputs, layers = width << stage, layers - 2


def patch_side(height: int, width: int) -> int:
    """Return the side of a transformer's patches: at least 2, and at most `PATCHES` patches.

    >>> patch_side(8, 8), patch_side(28, 28), patch_side(32, 32)
    (2, 4, 4)
    """
    side = 2
    while patch_count(height, width, side) > PATCHES:
        side += 1
    return side


def patch_count(height: int, width: int, side: int) -> int:
    """Return the number of patches of an image; those at its edges may exceed it."""
    return -(-height // side) * -(-width // side)


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

    ``image`` is height, width and colours of a sample of ``d`` features, for networks of images.
    Raises `KeyError` for other names, and `ValueError` if ``image`` is missing.

    >>> sizes("resnet", d=3072, width=16, depth=32, outputs=10, image=(32, 32, 3)).weights
    461872
    """
    kind = MODELS[name]
    if not kind.needs_images:
        inner = depth - 1 if kind.family != "residual_mlp" else depth
        layers, top = [_dense(d, width), *[_dense(width, width)] * inner], width
    elif image is None:
        raise ValueError(f"{name} needs the shape of an image")
    elif kind.family == "vit":
        layers, top = _transformer(image, width, depth), width
    elif kind.family == "conv":
        height, breadth, colours = image
        positions = height * breadth
        channels = [_convolution(width, width, positions)] * (depth - 1)
        layers = [_convolution(colours, width, positions), *channels]
        top = width if kind.pool else width * positions
    else:
        layers, top = _resnet(image, width, depth)
    weights, products, units = (sum(column) for column in zip(*layers, strict=True))
    head = top * outputs
    return Sizes(weights + head, products + head, first=layers[0][1], units=units)


def _dense(inputs: int, units: int, positions: int = 1) -> Layer:
    return inputs * units, inputs * units * positions, units * positions


def _convolution(inputs: int, channels: int, positions: int) -> Layer:
    return _dense(9 * inputs, channels, positions)


def _resnet(image: tuple[int, int, int], width: int, depth: int) -> tuple[list[Layer], int]:
    """Return the layers of a resnet but for the classifier, and the channels that it sees."""
    height, breadth, colours = image
    layers, top = [_convolution(colours, width, height * breadth)], width
    for inputs, channels, stride, count in blocks(width, depth):
        height, breadth = -(-height // stride), -(-breadth // stride)
        for channels_in in (inputs, channels)[:count]:
            layers.append(_convolution(channels_in, channels, height * breadth))
        top = channels
    return layers, top


def _transformer(image: tuple[int, int, int], width: int, depth: int) -> list[Layer]:
    """Return the layers of a transformer but for the head; attention has products alone."""
    height, breadth, colours = image
    side = patch_side(height, breadth)
    tokens = patch_count(height, breadth, side)
    block = [_dense(width, width, tokens)] * 4 + [(0, 2 * tokens**2 * width, 0)]
    block += [_dense(width, 2 * width, tokens), _dense(2 * width, width, tokens)]
    return [_dense(side**2 * colours, width, tokens), *block * depth]

"""What datasets, activations and depths are called and how they look: the same in every figure."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex

LineStyle: TypeAlias = "str | tuple[float, Sequence[float]]"

#: How a dataset is printed, and its colour. Colours are of Okabe & Ito (2008) and Tol (2021,
#: "muted"): told apart with any colour vision.
_DATASETS = {
    "synthetic": ("Synthetic", "#0072B2"),
    "digits": ("Digits", "#D55E00"),
    "patches": ("Patches", "#009E73"),
    "small_patches": ("Small patches", "#A569FF"),
    "mnist": ("MNIST", "#CC79A7"),
    "fashion_mnist": ("f-MNIST", "#E69F00"),
    "synthetic10": ("Synthetic (10-d)", "#56B4E9"),
    "svhn": ("SVHN", "#000000"),
    "librispeech": ("Librispeech", "#7F5539"),
    "librispeech_sample": ("Librispeech (sample)", "#6611CC"),
    "cifar10": ("CIFAR-10", "#882255"),
    "digits_sphere": ("Digits on the sphere", "#992E00"),
    "patches_sphere": ("Patches on the sphere", "#96C369"),
    "synthetic_sphere": ("Random on the sphere", "#001E69"),
}
_ACTIVATIONS = {
    "relu": ("ReLU", "#332288"),
    "linear": ("linear", "#000000"),
    "leaky_relu": ("leaky ReLU", "#88CCEE"),
    "erf": ("erf", "#44AA99"),
    "tanh": ("tanh", "#117733"),
    "gelu": ("GELU", "#CC6677"),
    "selu": ("SELU", "#882255"),
    "sigmoid": ("sigmoid", "#DDAA33"),
    "softplus": ("softplus", "#AA4499"),
    "normrelu": ("NormReLU", "#9933FF"),
}
_OTHER_COLORS = ("#EE7733", "#0077BB", "#999933", "#CC3311", "#009988", "#4D4D4D")
_NORMALIZED = "normalized_"

_LINE_STYLES: tuple[Any, ...] = ("-", (0, (1, 1.2)), "-.", (0, (3, 1, 1, 1, 1, 1)))
DASHED: Any = (0, (4, 1.6))


def dataset_label(name: str) -> str:
    """Return a dataset's name as it is printed.

    >>> dataset_label("fashion_mnist"), dataset_label("my_data")
    ('f-MNIST', 'my data')
    """
    return _label(name, _DATASETS)


def dataset_order(name: str) -> tuple[int, str]:
    """Return a key that sorts datasets: those with a colour in its order, then others by name.

    >>> sorted(["mine", "mnist", "digits"], key=dataset_order)
    ['digits', 'mnist', 'mine']
    """
    known = list(_DATASETS)
    return (known.index(name) if name in known else len(known)), name


def activation_label(name: str) -> str:
    """Return an activation's name as it is printed.

    >>> activation_label("normalized_leaky_relu-0.2")
    'normalised leaky ReLU (0.2)'
    """
    base, _, slope = name.removeprefix(_NORMALIZED).partition("-")
    normalized = "normalised " if name.startswith(_NORMALIZED) else ""
    return normalized + _label(base, _ACTIVATIONS) + (f" ({slope})" if slope else "")


def _label(name: str, known: Mapping[str, tuple[str, str]]) -> str:
    return known[name][0] if name in known else name.replace("_", " ")


def dataset_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per dataset; an unknown one gets a spare colour by its name."""
    return _colors(names, _DATASETS)


def activation_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per activation, which its normalised variant shares.

    >>> colors = activation_colors(["normalized_relu", "relu", "swish"])
    >>> colors["normalized_relu"] == colors["relu"] != colors["swish"]
    True
    """
    bases = {name: name.removeprefix(_NORMALIZED) for name in names}
    colors = _colors(bases.values(), _ACTIVATIONS)
    return {name: colors[base] for name, base in bases.items()}


def _colors(names: Iterable[str], known: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        if name in known:
            chosen[name] = known[name][1]
        elif name not in chosen:
            # By its name and not by its place, so that it keeps its colour from figure to figure.
            start = zlib.crc32(name.encode()) % len(_OTHER_COLORS)
            turned = _OTHER_COLORS[start:] + _OTHER_COLORS[:start]
            free = [color for color in turned if color not in chosen.values()]
            chosen[name] = (free or turned)[0]
    return chosen


def depth_colors(depths: Iterable[int]) -> dict[int, str]:
    """Return a sequence of colours that darken with depth.

    >>> list(depth_colors([4, 1]))
    [1, 4]
    """
    depths = sorted(set(depths))
    shades = np.linspace(0.82, 0.05, len(depths)) if len(depths) != 1 else [0.4]
    colors = [to_hex(mpl.colormaps["viridis"](shade)) for shade in shades]
    return dict(zip(depths, colors, strict=True))


def activation_lines(names: Iterable[str]) -> dict[str, LineStyle]:
    """Return a line style per activation: dashes for linear, a solid line for the first other.

    >>> activation_lines(["linear", "relu"])["relu"]
    '-'
    """
    others = [name for name in dict.fromkeys(names) if name != "linear"]
    styles = {name: _LINE_STYLES[k % len(_LINE_STYLES)] for k, name in enumerate(others)}
    return {**styles, "linear": DASHED}

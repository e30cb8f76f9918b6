"""What datasets, activations and depths are called and how they look: the same in every figure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex

LineStyle: TypeAlias = "str | tuple[float, Sequence[float]]"

# Okabe & Ito (2008) and Tol (2021, "muted"): told apart with any colour vision.
_DATASET_COLORS = {
    "synthetic": "#0072B2",
    "digits": "#D55E00",
    "patches": "#009E73",
    "mnist": "#CC79A7",
    "fashion_mnist": "#E69F00",
    "synthetic10": "#56B4E9",
    "svhn": "#000000",
    "librispeech": "#7F5539",
    "librispeech_sample": "#6611CC",
    "cifar10": "#882255",
    "digits_sphere": "#992E00",
    "patches_sphere": "#96C369",
    "synthetic_sphere": "#001E69",
}
_ACTIVATION_COLORS = {
    "relu": "#332288",
    "linear": "#000000",
    "leaky_relu": "#88CCEE",
    "erf": "#44AA99",
    "tanh": "#117733",
    "gelu": "#CC6677",
    "selu": "#882255",
    "sigmoid": "#DDAA33",
    "softplus": "#AA4499",
    "normrelu": "#9933FF",
}
_OTHER_COLORS = ("#EE7733", "#0077BB", "#999933", "#CC3311", "#009988", "#4D4D4D")

_DATASET_LABELS = {
    "synthetic": "Synthetic",
    "synthetic10": "Synthetic (10-d)",
    "digits": "Digits",
    "digits_sphere": "Digits on the sphere",
    "patches_sphere": "Patches on the sphere",
    "synthetic_sphere": "Random on the sphere",
    "patches": "Patches",
    "mnist": "MNIST",
    "fashion_mnist": "f-MNIST",
    "svhn": "SVHN",
    "librispeech": "Librispeech",
    "librispeech_sample": "Librispeech (sample)",
    "cifar10": "CIFAR-10",
}
_ACTIVATION_LABELS = {
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "gelu": "GELU",
    "selu": "SELU",
    "normrelu": "NormReLU",
}
_NORMALIZED = "normalized_"

_LINE_STYLES: tuple[Any, ...] = ("-", (0, (1, 1.2)), "-.", (0, (3, 1, 1, 1, 1, 1)))
DASHED: Any = (0, (4, 1.6))


def dataset_label(name: str) -> str:
    """Return a dataset's name as it is printed.

    >>> dataset_label("fashion_mnist"), dataset_label("my_data")
    ('f-MNIST', 'my data')
    """
    return _DATASET_LABELS.get(name, name.replace("_", " "))


def dataset_order(name: str) -> tuple[int, str]:
    """Return a key that sorts datasets: those with a colour in its order, then others by name.

    >>> sorted(["mine", "mnist", "digits"], key=dataset_order)
    ['digits', 'mnist', 'mine']
    """
    known = list(_DATASET_COLORS)
    return (known.index(name) if name in known else len(known)), name


def activation_label(name: str) -> str:
    """Return an activation's name as it is printed.

    >>> activation_label("normalized_leaky_relu-0.2")
    'normalised leaky ReLU (0.2)'
    """
    base, _, slope = name.removeprefix(_NORMALIZED).partition("-")
    label = _ACTIVATION_LABELS.get(base, base.replace("_", " "))
    return (
        ("normalised " if name.startswith(_NORMALIZED) else "")
        + label
        + (f" ({slope})" if slope else "")
    )


def dataset_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per dataset; an unknown one gets a spare colour by its name."""
    return _colors(names, _DATASET_COLORS)


def activation_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per activation, which its normalised variant shares.

    >>> colors = activation_colors(["normalized_relu", "relu", "swish"])
    >>> colors["normalized_relu"] == colors["relu"] != colors["swish"]
    True
    """
    names = list(names)
    bases = _colors((name.removeprefix(_NORMALIZED) for name in names), _ACTIVATION_COLORS)
    return {name: bases[name.removeprefix(_NORMALIZED)] for name in names}


def _colors(names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        if name in known:
            chosen[name] = known[name]
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
    return {
        depth: to_hex(mpl.colormaps["viridis"](shade))
        for depth, shade in zip(depths, shades, strict=True)
    }


def activation_lines(names: Iterable[str]) -> dict[str, LineStyle]:
    """Return a line style per activation: dashes for linear, a solid line for the first other.

    >>> activation_lines(["linear", "relu"])["relu"]
    '-'
    """
    others = [name for name in dict.fromkeys(names) if name != "linear"]
    styles = {name: _LINE_STYLES[k % len(_LINE_STYLES)] for k, name in enumerate(others)}
    return {**styles, "linear": DASHED}

"""What datasets, activations and depths are called and how they look: the same in every figure."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex

LineStyle: TypeAlias = "str | tuple[float, Sequence[float]]"

Look: TypeAlias = tuple[str, str, str]  # how it is printed, its colour and its marker

#: Colours are of Okabe & Ito (2008) and Tol (2021, "muted"): told apart with any colour vision.
_DATASETS: dict[str, Look] = {
    "synthetic": ("Synthetic", "#0072B2", "o"),
    "digits": ("Digits", "#D55E00", "s"),
    "patches": ("Patches", "#009E73", "X"),
    "small_patches": ("Small patches", "#A569FF", "v"),
    "mnist": ("MNIST", "#CC79A7", "D"),
    "fashion_mnist": ("f-MNIST", "#E69F00", "^"),
    "synthetic10": ("Synthetic (10-d)", "#56B4E9", "8"),
    "svhn": ("SVHN", "#000000", "p"),
    "librispeech": ("Librispeech", "#7F5539", "h"),
    "librispeech_sample": ("Librispeech (sample)", "#6611CC", "P"),
    "cifar10": ("CIFAR-10", "#882255", "*"),
    "digits_sphere": ("Digits on the sphere", "#992E00", "<"),
    "patches_sphere": ("Patches on the sphere", "#96C369", ">"),
    "synthetic_sphere": ("Random on the sphere", "#001E69", "d"),
}
_ACTIVATIONS: dict[str, Look] = {
    "relu": ("ReLU", "#332288", "o"),
    "linear": ("linear", "#000000", "s"),
    "leaky_relu": ("leaky ReLU", "#88CCEE", "v"),
    "erf": ("erf", "#44AA99", "^"),
    "tanh": ("tanh", "#117733", "D"),
    "gelu": ("GELU", "#CC6677", "P"),
    "selu": ("SELU", "#882255", "X"),
    "sigmoid": ("sigmoid", "#DDAA33", "<"),
    "softplus": ("softplus", "#AA4499", ">"),
    "normrelu": ("NormReLU", "#9933FF", "*"),
}
_ARCHITECTURES: dict[str, Look] = {
    "two_layer": ("two layers", "#CC3311", "o"),
    "deep": ("deep", "#0077BB", "s"),
    "narrow_middle": ("narrow middle", "#EE7733", "D"),
    "densenet": ("DenseNet", "#999933", "^"),
    "bottleneck": ("bottleneck", "#009988", "v"),
}
#: What sets an experiment's networks apart from those of the paper's text.
_EXPERIMENTS = {"fig3": "", "fig3_code": "first layer ×√($2/d$)"}
_OTHER_COLORS = ("#EE7733", "#0077BB", "#999933", "#CC3311", "#009988", "#4D4D4D")
_OTHER_MARKERS = ("H", "d", "p", "h", "8", "1")
#: A prime number of them: depths 0 to 10 differ, and so do the powers of 2 up to 512.
_DEPTH_MARKERS = ("d", "o", "s", "<", "^", "v", "p", ">", "D", "X", "P")
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


def architecture_label(name: str) -> str:
    """Return how an architecture of the studies of wide networks is printed.

    >>> architecture_label("densenet"), architecture_label("my_network")
    ('DenseNet', 'my network')
    """
    return _label(name, _ARCHITECTURES)


def experiment_label(name: str) -> str:
    """Return what sets an experiment's networks apart, nothing for those of the paper's text.

    >>> experiment_label("fig3"), experiment_label("gradient_descent")
    ('', 'gradient descent')
    """
    return _EXPERIMENTS.get(name, name.replace("_", " "))


def _label(name: str, known: Mapping[str, Look]) -> str:
    return known[name][0] if name in known else name.replace("_", " ")


def dataset_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per dataset; an unknown one gets a spare colour by its name."""
    return _colors(names, _DATASETS)


def dataset_markers(names: Iterable[str]) -> dict[str, str]:
    """Return a marker per dataset; an unknown one gets a spare marker by its name."""
    return _markers(names, _DATASETS)


def activation_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per activation, which its normalised variant shares.

    >>> colors = activation_colors(["normalized_relu", "relu", "swish"])
    >>> colors["normalized_relu"] == colors["relu"] != colors["swish"]
    True
    """
    bases = {name: name.removeprefix(_NORMALIZED) for name in names}
    colors = _colors(bases.values(), _ACTIVATIONS)
    return {name: colors[base] for name, base in bases.items()}


def activation_markers(names: Iterable[str]) -> dict[str, str]:
    """Return a marker per activation, which its normalised variant shares."""
    bases = {name: name.removeprefix(_NORMALIZED) for name in names}
    markers = _markers(bases.values(), _ACTIVATIONS)
    return {name: markers[base] for name, base in bases.items()}


def architecture_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per architecture of the studies of wide networks."""
    return _colors(names, _ARCHITECTURES)


def architecture_markers(names: Iterable[str]) -> dict[str, str]:
    """Return a marker per architecture of the studies of wide networks."""
    return _markers(names, _ARCHITECTURES)


def _colors(names: Iterable[str], known: Mapping[str, Look]) -> dict[str, str]:
    return _choose(names, {name: color for name, (_, color, _) in known.items()}, _OTHER_COLORS)


def _markers(names: Iterable[str], known: Mapping[str, Look]) -> dict[str, str]:
    return _choose(names, {name: marker for name, (*_, marker) in known.items()}, _OTHER_MARKERS)


def _choose(
    names: Iterable[str], known: Mapping[str, str], spare: tuple[str, ...]
) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        if name in known:
            chosen[name] = known[name]
        elif name not in chosen:
            # By its name and not by its place, so that it stays the same from figure to figure.
            start = zlib.crc32(name.encode()) % len(spare)
            turned = spare[start:] + spare[:start]
            free = [look for look in turned if look not in chosen.values()]
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


def depth_markers(depths: Iterable[int]) -> dict[int, str]:
    """Return a marker per depth, the same in every figure.

    >>> depth_markers([1, 2, 4])
    {1: 'o', 2: 's', 4: '^'}
    """
    return {depth: _DEPTH_MARKERS[depth % len(_DEPTH_MARKERS)] for depth in sorted(set(depths))}


def activation_lines(names: Iterable[str]) -> dict[str, LineStyle]:
    """Return a line style per activation: dashes for linear, a solid line for the first other.

    >>> activation_lines(["linear", "relu"])["relu"]
    '-'
    """
    others = [name for name in dict.fromkeys(names) if name != "linear"]
    styles = {name: _LINE_STYLES[k % len(_LINE_STYLES)] for k, name in enumerate(others)}
    return {**styles, "linear": DASHED}

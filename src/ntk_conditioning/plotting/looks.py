"""How datasets, activations, networks and depths are printed and drawn: one table for all figures.

A value that has no entry keeps the spare colour and marker of its name from figure to figure.
"""

import json
import os
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex


class Look(NamedTuple):
    label: str
    color: str
    marker: str


#: By column and value. Colours are of Okabe & Ito (2008) and Tol (2021, "muted"), which readers
#: with any colour vision tell apart.
LOOKS: dict[str, dict[str, Look]] = {
    "dataset": {
        "synthetic": Look("Synthetic", "#0072B2", "o"),
        "digits": Look("Digits", "#D55E00", "s"),
        "patches": Look("Patches", "#009E73", "X"),
        "small_patches": Look("Small patches", "#A569FF", "v"),
        "mnist": Look("MNIST", "#CC79A7", "D"),
        "fashion_mnist": Look("f-MNIST", "#E69F00", "^"),
        "synthetic10": Look("Synthetic (10-d)", "#56B4E9", "8"),
        "svhn": Look("SVHN", "#000000", "p"),
        "librispeech": Look("LibriSpeech", "#7F5539", "h"),
        "librispeech_sample": Look("LibriSpeech (sample)", "#6611CC", "P"),
        "cifar10": Look("CIFAR-10", "#882255", "*"),
        "digits_sphere": Look("Digits on the sphere", "#992E00", "<"),
        "patches_sphere": Look("Patches on the sphere", "#96C369", ">"),
        "synthetic_sphere": Look("Random on the sphere", "#001E69", "d"),
    },
    "activation": {
        "relu": Look("ReLU", "#332288", "o"),
        "linear": Look("linear", "#000000", "s"),
        "leaky_relu": Look("leaky ReLU", "#88CCEE", "v"),
        "erf": Look("erf", "#44AA99", "^"),
        "tanh": Look("tanh", "#117733", "D"),
        "gelu": Look("GELU", "#CC6677", "P"),
        "selu": Look("SELU", "#882255", "X"),
        "sigmoid": Look("sigmoid", "#DDAA33", "<"),
        "softplus": Look("softplus", "#AA4499", ">"),
        "normrelu": Look("NormReLU", "#9933FF", "*"),
    },
    "architecture": {
        "two_layer": Look("two layers", "#CC3311", "o"),
        "deep": Look("deep", "#0077BB", "s"),
        "narrow_middle": Look("narrow middle", "#EE7733", "D"),
        "densenet": Look("DenseNet", "#999933", "^"),
        "bottleneck": Look("bottleneck", "#009988", "v"),
    },
    # Networks of one family share a panel; their colours tell them apart there.
    "model": {
        "mlp": Look("fully connected", "#0072B2", "o"),
        "mlp_bias": Look("with biases", "#D55E00", "s"),
        "residual_mlp": Look("residual, scale 1", "#009E73", "^"),
        "residual_mlp_scaled": Look("residual, scale 1/√L", "#CC79A7", "D"),
        "conv": Look("convolutional, flattened", "#0072B2", "o"),
        "conv_pool": Look("convolutional, pooled", "#D55E00", "s"),
        "resnet": Look("ResNet", "#0072B2", "o"),
        "resnet_batch_norm": Look("ResNet, batch norm", "#D55E00", "s"),
        "resnet_layer_norm": Look("ResNet, layer norm", "#009E73", "^"),
        "resnet_fixup": Look("ResNet, Fixup", "#CC79A7", "D"),
        "vit": Look("transformer", "#E69F00", "v"),
    },
    # What keeps a trained network trainable beside its activation.
    "remedy": {
        "batch_norm": Look("batch norm", "#0072B2", "s"),
        "layer_norm": Look("layer norm", "#E69F00", "D"),
        "fixup": Look("Fixup", "#009E73", "^"),
    },
    # How a condition number is computed; the last three are of infinite width.
    "method": {
        "float32_general": Look("float32, general solver (published)", "#CC3311", "v"),
        "float32_symmetric": Look("float32, symmetric solver", "#EE9988", "s"),
        "float32": Look("float32 kernel, float64 solver", "#E3B505", "D"),
        "float64": Look("float64", "#0077BB", "o"),
        "extremes": Look("float64, Cholesky and Lanczos", "#33BBEE", "P"),
        "factor": Look("float64, singular values of factor", "#009988", "^"),
        "cosine_float32": Look("cosine formula, float32", "#999933", "<"),
        "cosine": Look("cosine formula, float64", "#882255", "X"),
        "deficits": Look("cosine distances, float64", "#332288", "*"),
    },
}
#: The panels of networks, by what is in the names of those that share one.
FAMILIES = {
    "mlp": "fully connected",
    "conv": "convolutional",
    "resnet": "ResNet and transformer",
    "vit": "ResNet and transformer",
}
#: What sets an experiment's networks apart from those of the paper's text.
EXPERIMENTS = {"fig3": "", "fig3_code": "first layer ×√($2/d$)"}
#: The environment variable with titles of further datasets by name, in JSON.
TITLES = "NTK_DATASET_TITLES"
_OTHER_COLORS = ("#EE7733", "#0077BB", "#999933", "#CC3311", "#009988", "#4D4D4D")
_OTHER_MARKERS = ("H", "d", "p", "h", "8")
#: A prime number of them: depths 0 to 10 differ, and so do the powers of 2 up to 512.
_DEPTH_MARKERS = ("d", "o", "s", "<", "^", "v", "p", ">", "D", "X", "P")
_NORMALIZED = "normalized_"
#: Dashes as seaborn takes them, in points: linear networks have DASHED, the first other is solid.
DASHED = (4, 1.6)
DASHES: tuple[Any, ...] = ("", (1, 1.2), (3, 1, 1, 1), (3, 1, 1, 1, 1, 1))


def label(column: str, value: Any) -> str:
    """Return how a value of a column is printed.

    >>> label("dataset", "fashion_mnist"), label("dataset", "my_data"), label("depth", 3)
    ('f-MNIST', 'my data', '$L$ = 3')
    >>> label("activation", "normalized_leaky_relu-0.2")
    'normalised leaky ReLU (0.2)'
    """
    if column in ("depth", "width"):
        return f"$L$ = {value}" if column == "depth" else f"width {value}"
    known, base = LOOKS.get(column, {}), str(_base(column, value))
    family, _, parameter = base.partition("-")
    if base in known:
        text = known[base].label
    elif column == "activation" and family in known:
        text = f"{known[family].label} ({parameter})"
    else:
        titles = {"dataset": json.loads(os.environ.get(TITLES, "{}")), "experiment": EXPERIMENTS}
        text = titles.get(column, {}).get(base, base.replace("_", " "))
    return text if base == str(value) else f"normalised {text}"


def colors(column: str, values: Iterable[Any]) -> dict[Any, str]:
    """Return a colour for each value; numbers, such as depths, darken as they grow.

    A categorical column has colours for all of its categories, so that a part of it has the same.

    >>> list(colors("depth", [4, 1]))
    [1, 4]
    >>> shades = colors("activation", ["normalized_relu", "relu", "swish"])
    >>> shades["normalized_relu"] == shades["relu"] != shades["swish"]
    True
    """
    values = _distinct(values)
    if all(isinstance(value, str) for value in values):
        return _chosen(column, values, "color", _OTHER_COLORS)
    shades = np.linspace(0.82, 0.05, len(values)) if len(values) > 1 else [0.4]
    viridis = mpl.colormaps["viridis"]
    return {v: to_hex(viridis(s)) for v, s in zip(sorted(values), shades, strict=True)}


def markers(column: str, values: Iterable[Any]) -> dict[Any, str]:
    """Return a marker for each value; a depth has the same in every figure.

    >>> markers("depth", [1, 2, 4])
    {1: 'o', 2: 's', 4: '^'}
    """
    values = _distinct(values)
    if all(isinstance(value, str) for value in values):
        return _chosen(column, values, "marker", _OTHER_MARKERS)
    places = sorted(values) if column == "depth" else range(len(values))
    places = [int(place) % len(_DEPTH_MARKERS) for place in places]
    return {v: _DEPTH_MARKERS[place] for v, place in zip(sorted(values), places, strict=True)}


def dashes(values: Iterable[Any]) -> dict[Any, Any]:
    """Return seaborn's dashes for each value: DASHED for `linear`, solid for the first other.

    >>> dashes(["linear", "relu"])["relu"]
    ''
    """
    others = [value for value in dict.fromkeys(values) if value != "linear"]
    return {v: DASHES[k % len(DASHES)] for k, v in enumerate(others)} | {"linear": DASHED}


def line_style(dash: Any) -> Any:
    """Return matplotlib's line style for seaborn's dashes."""
    return (0, dash) if dash else "-"


def vega_range(channel: str, column: str, names: list[str]) -> list[Any]:
    """Return how Vega draws names: in color and strokeDash as the figures do, and in shape."""
    if channel == "color":  # black is lost on a dark page
        return [colors(column, names)[name].replace("#000000", "#888888") for name in names]
    if channel == "shape":
        triangles = [f"triangle-{side}" for side in ("up", "down", "left", "right")]
        return ["circle", "square", "diamond", "cross", *triangles]
    return [[2 * length for length in dashes(names)[name]] or [1, 0] for name in names]


def families(models: Iterable[str]) -> dict[str, list[str]]:
    """Return models by the panel that they share; unknown ones are "other".

    >>> families(["mine", "conv_pool"])
    {'other': ['mine'], 'convolutional': ['conv_pool']}
    """
    panels: dict[str, list[str]] = {}
    for model in models:
        family = next((name for part, name in FAMILIES.items() if part in model), "other")
        panels.setdefault(family, []).append(model)
    return panels


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return different values, or the categories of a categorical column."""
    return list(dict.fromkeys(getattr(getattr(values, "cat", None), "categories", values)))


def _base(column: str, value: Any) -> Any:
    """Return the value whose look a value shares: an activation's without its normalisation."""
    return value.removeprefix(_NORMALIZED) if column == "activation" else value


def _chosen(column: str, values: list[str], part: str, spare: tuple[str, ...]) -> dict[str, str]:
    known, chosen = LOOKS.get(column, {}), dict[str, str]()
    for name in sorted({_base(column, value) for value in values}):  # whatever their order
        # a spare one by its name and not by its place, so that it is the same in every figure
        start = zlib.crc32(name.encode()) % len(spare)
        turned = spare[start:] + spare[:start]
        free = [look for look in turned if look not in chosen.values()] or turned
        chosen[name] = getattr(known[name], part) if name in known else free[0]
    return {value: chosen[_base(column, value)] for value in values}

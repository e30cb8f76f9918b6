"""Names keep their colours, which are told apart with any sight."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from ntk_conditioning import plotting
from ntk_conditioning.networks import activations

ROOT = Path(__file__).parents[3]
CATALOGUE = list(yaml.safe_load((ROOT / "datasets.yaml").read_text()))

# Machado, Oliveira & Fernandes (2009), severity 1.0: linear RGB as people without the one kind of
# cone see it.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0521]]
    ),
    "deuteranopia": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9690]]
    ),
    "tritanopia": np.array(
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]
    ),
}


def lab(color: str, sight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a colour in CIELAB, white point D65, where distances are differences as seen."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(sight @ linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT.values(), ids=SIGHT)
@pytest.mark.parametrize(
    "colors",
    [plotting.dataset_colors(CATALOGUE), plotting.activation_colors(activations.names())],
    ids=["datasets", "activations"],
)
def test_colors_are_told_apart_with_any_sight(
    colors: dict[str, str], sight: NDArray[np.float64]
) -> None:
    # A difference of 2 can be seen side by side; thin lines across a figure need several times it.
    for one, other in combinations(colors, 2):
        assert np.linalg.norm(lab(colors[one], sight) - lab(colors[other], sight)) > 14, (
            one,
            other,
        )


def test_a_color_does_not_depend_on_what_else_is_drawn() -> None:
    alone = plotting.activation_colors(["tanh"])
    among = plotting.activation_colors(["swish", "normalized_tanh", "relu", "tanh"])
    assert alone["tanh"] == among["tanh"] == among["normalized_tanh"] != among["swish"]
    assert plotting.dataset_colors(["wine"]) == {
        "wine": plotting.dataset_colors(["digits", "wine"])["wine"]
    }


def test_unknown_names_have_different_colors() -> None:
    names = [f"own_{k}" for k in range(6)]
    assert len(set(plotting.dataset_colors([*CATALOGUE, *names]).values())) == len(CATALOGUE) + 6
    many = [f"own_{k}" for k in range(50)]
    assert list(plotting.dataset_colors(many)) == many


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("relu", "ReLU"),
        ("normalized_relu", "normalised ReLU"),
        ("leaky_relu-0.2", "leaky ReLU (0.2)"),
        ("normrelu--1", "NormReLU (-1)"),
        ("swish_2", "swish 2"),
    ],
)
def test_activation_label(name: str, label: str) -> None:
    assert plotting.activation_label(name) == label


def test_depth_colors_darken() -> None:
    shades = [sum(to_rgb(color)) for color in plotting.depth_colors([10, 1, 4, 4]).values()]
    assert len(shades) == 3
    assert shades == sorted(shades, reverse=True)
    assert list(plotting.depth_colors([3])) == [3]


def test_lines_of_activations_differ() -> None:
    lines = plotting.activation_lines(["relu", "linear", "tanh", "relu"])
    assert lines["relu"] == "-"
    assert len({str(line) for line in lines.values()}) == 3

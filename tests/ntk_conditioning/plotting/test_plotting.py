"""Curves, names and marks of figures, and files that have the same bytes each time."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.spatial.distance import pdist

from ntk_conditioning import plotting
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting import looks

ROOT = Path(__file__).parents[3]
CATALOGUE = list(yaml.safe_load((ROOT / "datasets.yaml").read_text()))
NAMED = [("dataset", CATALOGUE), ("activation", activations.names())]


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context():
        plotting.use_theme()
        yield


@pytest.fixture
def ax():
    return Figure(figsize=(4, 3)).subplots()


def numbers_along(ax, *ends):
    ax.plot([0, 1], ends)
    ax.set_yscale("log")
    plotting.plain_log(ax, "y")
    ax.figure.draw_without_rendering()
    low, high = ax.get_ylim()
    labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return [label.get_text() for tick, label in labels if low <= tick <= high]


def test_a_log_axis_has_plain_numbers_but_large_ones_as_powers_of_ten(ax):
    assert numbers_along(ax, 0.4, 30) == ["0.5", "1", "2", "5", "10", "20"]
    assert all("10^" in text for text in numbers_along(ax.twinx(), 30, 3e7))


def test_missing_points_are_gaps_lone_points_dots_and_a_mean_of_seeds_needs_them_all(ax):
    y = [1.0, None, 3.0, np.nan, 5.0, 6.0]
    table = pd.DataFrame({"x": range(6), "y": y, "low": y, "high": y})
    plotting.curves(table, x="x", y="y", band=("low", "high"), ax=ax, markers=False, color="k")
    drawn = [line.get_xdata().tolist() for line in ax.lines if len(line.get_xdata())]
    assert sorted(drawn) == [[0], [0], [2], [2], [4, 5]], "a line and a dot for each lone point"
    assert [line.get_marker() for line in ax.lines].count(".") == 2
    assert len(ax.collections) == 3
    marked, mean = Figure().subplots(2)
    plotting.curves(table, x="x", y="y", ax=marked, color="k")
    assert len(marked.lines) == 3
    seeds = pd.DataFrame({"x": [0, 0, 1, 1, 2, 2], "y": [1.0, 99.0, 2.0, np.nan, 4.0, 6.0]})
    plotting.curves(seeds, x="x", y="y", ax=mean)
    mean.set_yscale("log")
    assert [line.get_xydata().tolist() for line in mean.lines] == [[[0, 50]], [[2, 5]]]
    with pytest.raises(ValueError, match="before the axis becomes logarithmic"):
        plotting.curves(seeds, x="x", y="y", ax=mean)


def test_panels_have_letters_before_their_titles_unless_there_is_only_one():
    alone, off, titled = axes = Figure().subplots(3)
    plotting.label_panels([alone])
    assert alone.get_title("left") == ""
    off.set_axis_off()
    titled.set_title("one line")
    plotting.label_panels(axes)
    titles = [ax.get_title("left").strip() for ax in axes]
    assert titles == [r"$\mathbf{(a)}$", "", r"$\mathbf{(b)}$ one line"]


def test_legend_groups_begin_rows():
    figure = Figure()
    groups = [[plotting.sample(name) for name in names] for names in ("abcde", "", "xy")]
    plotting.legend(figure, *groups, [plotting.band_sample("z")], columns=3)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["a", "d", "x", "z", "b", "e", "y", "", "c", "", "", ""]  # column by column


# Machado, Oliveira & Fernandes (2009), severity 1.0: linear RGB as people without the one kind of
# cone see it.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0521]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.969]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color, sight):
    """Return a colour in CIELAB, white point D65, where distances are differences as seen."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(sight @ linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(("column", "names"), NAMED)
def test_colors_are_told_apart_with_any_sight(column, names, sight):
    # A difference of 2 can be seen side by side; thin lines across a figure need several times it.
    seen = [lab(color, np.array(SIGHT[sight])) for color in looks.colors(column, names).values()]
    assert pdist(seen).min() > 14


def test_names_are_spelled_out_and_colors_depend_on_the_name_alone(monkeypatch):
    monkeypatch.setenv(looks.TITLES, '{"wine": "Chemistry of 178 wines", "digits": "Numbers"}')
    names = [plotting.label("dataset", name) for name in ("wine", "digits", "my_data")]
    assert names == ["Chemistry of 178 wines", "Digits", "my data"]
    names = [plotting.label("activation", name) for name in ("swish_2", "normrelu--1", "a-b")]
    assert names == ["swish 2", "NormReLU (-1)", "a-b"]
    for column, name, other in (("activation", "tanh", "swish"), ("dataset", "wine", "digits")):
        alone, among = looks.colors(column, [name]), looks.colors(column, [other, name])
        assert alone[name] == among[name] != among[other]
    unknown = [f"own_{k}" for k in range(50)]
    colors = looks.colors("dataset", [*CATALOGUE, *unknown[:6]])
    assert len(set(colors.values())) == len(CATALOGUE) + 6
    assert list(looks.colors("dataset", unknown)) == unknown
    assert looks.colors("dataset", unknown) == looks.colors("dataset", unknown[::-1])


def test_curves_are_told_apart_without_colors():
    for column, values in [*NAMED, ("depth", range(11)), ("depth", [2**k for k in range(10)])]:
        assert len(set(looks.markers(column, values).values())) == len(values)
    unknown = looks.markers("activation", [f"own_{k}" for k in range(50)])
    assert {*unknown.values()} <= {*Line2D.filled_markers}  # seaborn refuses a mixture
    lines = looks.dashes(["relu", "linear", "tanh", "relu"])
    assert lines["relu"] == ""
    assert len({str(line) for line in lines.values()}) == 3


def test_depths_darken_and_a_part_of_a_categorical_column_looks_as_in_the_whole(ax):
    shades = [sum(to_rgb(color)) for color in looks.colors("depth", [10, 1, 4, 4]).values()]
    assert shades == sorted({*shades}, reverse=True)
    assert (len(shades), [*looks.colors("depth", [3])]) == (3, [3])
    depths = pd.Series([1, 4, 8]).astype(pd.CategoricalDtype([1, 2, 4, 8]))
    whole = looks.colors("depth", [1, 2, 4, 8])
    assert looks.colors("depth", depths[depths != 1]) == whole
    assert looks.markers("depth", depths) == looks.markers("depth", [1, 2, 4, 8])
    missing = pd.DataFrame({"depth": depths, "rate": [0.5, 1, 2]}).query("depth == 4")
    ax.set_yscale("log")
    plotting.arrows(ax, missing, x="rate", hue="depth")
    assert {line.get_color() for line in ax.lines} == {whole[4]}


@pytest.mark.parametrize("edge", ["top", "bottom"])
def test_arrows_stand_beside_all_curves_and_those_of_a_curve_at_one_height(ax, edge):
    ax.plot([1, 2], [1e2, 1e7])
    ax.set_yscale("log")
    rows = {"depth": [1, 2, 2], "activation": ["relu", "relu", "normalized_relu"]}
    missing = pd.DataFrame(rows | {"normalised": [False, False, True]}, index=[7, 3, 5])
    look = {"x": "depth", "hue": "activation", "style": "normalised"}
    look["dashes"] = {False: "", True: (4, 1.6)}
    plotting.arrows(ax, missing, **look, text="depth", label="beyond", edge=edge)
    drawn = [line for line in ax.lines if line.get_linewidth() == 0.6]
    assert [line.get_xdata().tolist() for line in drawn] == [[1, 2], [2]]
    low, high = ax.get_ylim()
    levels = [float(*{*line.get_ydata()}) for line in drawn]  # one height for each curve
    first, second = (low * (high / low) ** level for level in levels)
    assert 1e7 < first < second < high if edge == "top" else low < first < second < 1e2
    ticks = [*ax.get_yticks(), *ax.get_yticks(minor=True)]
    assert not any(first <= tick <= second for tick in ticks)  # arrows have no values
    assert [text.get_text() for text in ax.texts] == ["beyond", "1", "2", "2"]
    assert [line.get_linestyle() for line in drawn] == ["-", "--"]
    name = "up" if edge == "top" else "down"
    assert {line.get_marker() for line in drawn} == {rf"$\{name}arrow$"}


def test_a_curve_keeps_its_marker_where_another_has_no_value_and_bounds_are_not_joined(ax):
    rows = {"x": [0, 1, 0, 1], "width": [16, 16, 64, 64], "y": [np.nan] * 2 + [1, 2]}
    rows, look = pd.DataFrame(rows | {"style": "linear"}), {"x": "x", "y": "y", "hue": "width"}
    plotting.curves(rows, ax=ax, **look)
    (line,), (_, second) = ax.lines, plotting.samples("width", [16, 64])
    assert line.get_marker() == second.get_marker()
    plotting.curves(rows, ax=ax, **look, style="style", markers=False, **plotting.LOWER_BOUND)
    assert {bound.get_linewidth() for bound in ax.lines[1:]} == {0}
    plotting.curves(rows, ax=ax, **look, linestyle="none")
    assert ax.lines[-1].get_linestyle() == "None"


def test_nothing_beyond_the_axis_changes_nothing_and_arrows_alone_have_no_scale(ax):
    ax.set_yscale("log")
    before, missing = ax.get_ylim(), pd.DataFrame({"depth": [0, 1], "dataset": "digits"})
    plotting.arrows(ax, missing[:0], x="depth", hue="dataset")
    assert (ax.get_ylim(), len(ax.lines), len(ax.patches)) == (before, 0, 0)
    ax.vlines([1.0, 2.0], np.nan, np.nan)
    ax.set_yscale("log")
    plotting.plain_log(ax, "y")
    plotting.arrows(ax, missing, x="depth", hue="dataset")
    assert not [*ax.get_yticks(), *ax.get_yticks(minor=True)]


def test_bars_are_drawn_over_errors_that_can_be_seen(ax):
    ax.set_yscale("log")
    rows = {"x": [1, 2, 4, 8, 9], "y": [10.0, 30.0, 4.0, 5.0, None], "hue": "relu"}
    rows = pd.DataFrame(rows | {"error": [1e-4, 0.5, None, np.inf, 0.5]})
    look = {"x": "x", "y": "y", "error": "error", "hue": "hue"}
    assert not plotting.error_bars(ax, rows.iloc[[0, 4]], **look)
    assert not ax.collections
    assert plotting.error_bars(ax, rows, **look)
    (bars,) = ax.collections
    np.testing.assert_allclose(bars.get_segments(), [[[2, 20], [2, 45]], [[8, 0.5], [8, 50]]])


def test_saved_figures_are_reproducible_and_keep_their_fonts(tmp_path):
    expected = dict(mpl.rcParams)
    mpl.rcParams.update({"font.family": "serif", "lines.linewidth": 9, "pdf.fonttype": 3})
    plotting.use_theme()  # it overrides the user's
    assert dict(mpl.rcParams) == expected
    for folder in (tmp_path / "one", tmp_path / "two"):
        figure = Figure(figsize=(2, 2))
        figure.subplots().set_title(r"condition number $\kappa$")
        plotting.save_figure(figure, pdf=str(folder / "figure.pdf"), png=folder / "figure.png")
    one, two = ({p.name: p.read_bytes() for p in f.iterdir()} for f in tmp_path.iterdir())
    assert one == two
    pdf, png = (one.pop(f"figure.{kind}") for kind in ("pdf", "png"))
    assert not one
    assert not any(word in pdf for word in (b"CreationDate", b"Matplotlib", b"matplotlib.org"))
    assert not re.search(rb"/Subtype\s*/Type3", pdf)
    assert b"FontFile2" in pdf  # TrueType is embedded: Type 42
    width, height = (int.from_bytes(png[k : k + 4]) for k in (16, 20))
    assert (width, height) == (400, 400)  # 2 inches at 200 dpi

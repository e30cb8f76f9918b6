"""The explorer's charts, for src/ntk_workflow/explorer/charts.yaml; here they are Vega-Altair's.

A parameter of a chart is a signal that the page's controls of the same name set.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

Spec = dict[str, Any]
#: Colours of the two curves that have no name, on white and on black (Tol 2021, "Colour schemes",
#: bright), and dashes.
COLORS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#999999"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 2], [4, 4], [1, 3]]
#: Darker with depth, as in the figures, without the ends, which are lost on black and on white.
VIRIDIS = alt.SchemeParams("viridis", extent=[0.85, 0.2])
NUMBER, SHORT = ".4~g", ".3~g"
#: The page puts the depths of the run in place of these.
DEPTHS = alt.Axis(title="depth L (hidden layers)", values=[0], format="d")


def depth_kappa() -> Spec:
    """Return kappa against depth."""
    return _against_depth(
        "kappa",
        "condition number κ",
        ends=("low", "high"),
        log=True,
        told=[
            alt.Tooltip("kappa:Q", format=NUMBER, title="κ, mean"),
            alt.Tooltip("low:Q", format=NUMBER, title="smallest"),
            alt.Tooltip("high:Q", format=NUMBER, title="largest"),
            alt.Tooltip("rank:Q", title="rank"),
            alt.Tooltip("floor:Q", format=SHORT, title="resolution floor"),
        ],
    )


def depth_angle() -> Spec:
    """Return the smallest gradient angle against depth."""
    return _against_depth(
        "angle",
        "smallest gradient angle (degrees)",
        ends=("angle_low", "angle_high"),
        log=False,
        told=[
            alt.Tooltip("angle:Q", format=NUMBER, title="angle, mean"),
            alt.Tooltip("angle_low:Q", format=NUMBER, title="smallest"),
            alt.Tooltip("angle_high:Q", format=NUMBER, title="largest"),
        ],
    )


def _against_depth(
    field: str, title: str, *, ends: tuple[str, str], log: bool, told: list[alt.Tooltip]
) -> Spec:
    lists = ("datasets", "activations", "kernels", "widths")
    shown = (
        "indexof(datasets, datum.dataset) >= 0 && indexof(activations, datum.activation) >= 0"
        " && indexof(kernels, datum.kernel) >= 0"
        " && (datum.width == null || indexof(widths, '' + datum.width) >= 0)"
        f" && datum.{field} != null"
    )
    curve = alt.Detail(["dataset:N", "activation:N", "kernel:N", "width:N"])
    names = [alt.Tooltip(f"{name}:N") for name in ("dataset", "activation", "kernel")]
    names += [alt.Tooltip(f"{name}:Q") for name in ("depth", "width", "n", "seeds")]
    scale = alt.Scale(type="log" if log else "linear", zero=False, nice=False, padding=8)
    base = (
        alt.Chart(alt.NamedData("depth"))
        .transform_filter(shown)
        .encode(
            x=alt.X("depth:Q", scale=alt.Scale(type="symlog"), axis=DEPTHS),
            y=alt.Y(f"{field}:Q", scale=scale, title=title, axis=_axis()),
            color=alt.Color("dataset:N", scale=alt.Scale(range=COLORS), legend=_legend()),
            detail=curve,
        )
    )
    dash = alt.StrokeDash("activation:N", scale=alt.Scale(range=DASHES), legend=_legend())
    thin = alt.condition("indexof(datum.kernel, 'infinite') >= 0", alt.value(1.2), alt.value(2.4))
    lines = base.mark_line().encode(strokeDash=dash, strokeWidth=thin)
    spread = base.mark_rule(opacity=0.5).encode(y=alt.Y(f"{ends[0]}:Q"), y2=alt.Y2(f"{ends[1]}:Q"))
    points = base.mark_point(filled=True, opacity=1).encode(
        shape=alt.Shape("dataset:N", legend=_legend()),
        size=_marked(60, 220),
        stroke=_ring(),
        strokeWidth=alt.value(2),
        tooltip=[*names, *told],
    )
    absent = (
        alt.Chart(alt.NamedData("depth"))
        .transform_filter(shown.replace("!= null", "== null"))
        .mark_point(filled=True, shape="triangle-up", opacity=1, size=60)
        .encode(
            x=base.encoding.x,
            y=alt.value(6),
            color=base.encoding.color,
            detail=curve,
            tooltip=[*names, *told],
        )
    )
    signals = {name: [] for name in lists} | {"marked": []}
    return _spec(alt.layer(spread, lines, points, absent), signals)


def spectrum() -> Spec:
    """Return eigenvalues over the largest by rank, of one kernel, dataset and depth."""
    shown = "datum.kernel == kernel && datum.dataset == dataset && datum.depth == depth"
    lines = (
        alt.Chart(alt.NamedData("spectra"))
        .transform_filter(shown)
        .mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.5)
        .encode(
            x=alt.X("rank:Q", scale=alt.Scale(type="log", nice=False), title="rank"),
            y=alt.Y("share:Q", scale=alt.Scale(type="log"), title="λ / λ_max", axis=_axis()),
            color=alt.Color("activation:N", scale=alt.Scale(range=COLORS), legend=_legend()),
            strokeDash=alt.StrokeDash("activation:N", scale=alt.Scale(range=DASHES), legend=None),
            detail="seed:N",
            tooltip=[
                *("activation:N", "depth:Q", "seed:N", "rank:Q"),
                alt.Tooltip("share:Q", format=NUMBER, title="λ / λ_max"),
                alt.Tooltip("floor:Q", format=SHORT, title="resolution floor / λ_max"),
            ],
        )
    )
    floor = (
        alt.Chart(alt.NamedData("spectra"))
        .transform_filter(shown)
        .transform_aggregate(floor="max(floor)", least="min(share)")
        .transform_filter("datum.least < 1000 * datum.floor")  # further off it says nothing
        .mark_rule(strokeDash=[2, 3])
        .encode(y="floor:Q", tooltip=[alt.Tooltip("floor:Q", format=SHORT)])
    )
    return _spec(alt.layer(lines, floor), {"kernel": "", "dataset": "", "depth": 0})


def training_curves() -> Spec:
    """Return losses by epoch at one learning rate, real and predicted."""
    shown = "datum.network == network && datum.relative_rate == rate && datum.kind != 'predicted'"
    told = ["depth:Q", "seed:N", "kind:N", "epoch:Q", alt.Tooltip("loss:Q", format=NUMBER)]
    real = _curves(shown, told).encode(
        strokeWidth=alt.condition(_in("marked"), alt.value(3), alt.value(1.4))
    )
    also = "datum.network == network && datum.relative_rate == rate && datum.kind == 'predicted'"
    predicted = _curves(also, told, strokeDash=[4, 3], opacity=0.8)
    return _spec(alt.layer(real, predicted), {"network": "", "rate": 0.0, "marked": []})


def _curves(shown: str, told: list[Any], **line: Any) -> alt.Chart:
    return (
        alt.Chart(alt.NamedData("training"))
        .transform_filter(shown)
        .mark_line(**line)
        .encode(
            x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickCount=6, tickMinStep=1)),
            y=alt.Y("loss:Q", scale=alt.Scale(type="log"), title="training loss", axis=_axis()),
            color=alt.Color("depth:O", scale=alt.Scale(scheme=VIRIDIS), legend=_legend()),
            detail=["seed:N", "depth:O"],
            tooltip=told,
        )
    )


def training_rates() -> Spec:
    """Return the last loss by learning rate."""
    ends = (
        alt.Chart(alt.NamedData("training"))
        .transform_filter("datum.network == network && datum.kind == 'real'")
        .transform_joinaggregate(last="max(epoch)", groupby=["network"])
        .transform_filter("datum.epoch == datum.last")
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "relative_rate:Q",
                scale=alt.Scale(type="log", nice=False, padding=12),
                title="learning rate, as the config gives it",
            ),
            y=alt.Y(
                "mean(loss):Q",
                scale=alt.Scale(type="log", nice=False, padding=12),
                title="last loss",
                axis=_axis(),
            ),
            color=alt.Color("depth:O", scale=alt.Scale(scheme=VIRIDIS), legend=_legend()),
            tooltip=["depth:Q", "relative_rate:Q", alt.Tooltip("mean(loss):Q", format=NUMBER)],
        )
    )
    here = (
        alt.Chart(alt.Data(values=[{}]))
        .mark_rule(strokeDash=[2, 3])
        .encode(x=alt.datum(alt.expr("rate"), type="quantitative"))
    )
    return _spec(alt.layer(ends, here), {"network": "", "rate": 1.0})


def phase_map() -> Spec:
    """Return the map: the change of log10 kappa between two depths, laws and measurements."""
    change = "datum['depth_' + stop] - datum['depth_' + start]"
    colors = alt.Scale(scheme="redblue", domain=[-2, 2], clamp=True, reverse=True)
    color = alt.Color(
        "change:Q",
        scale=colors,
        title="change of log₁₀ κ",
        legend=alt.Legend(orient="bottom", gradientLength=240),
    )
    scale = dict.fromkeys("xy", alt.Scale(type="log", nice=False, padding=12))
    told = [
        *("activation:N", alt.Tooltip("n:Q"), alt.Tooltip("d:Q")),
        alt.Tooltip("y:Q", format=SHORT, title="1 - mean cosine"),
        alt.Tooltip("change:Q", format=SHORT, title="change of log₁₀ κ"),
    ]
    field = (
        alt.Chart(alt.NamedData("laws"))
        .transform_filter("datum.activation == activation")
        .transform_calculate(change=change)
        .transform_filter("isValid(datum.change)")
        .mark_rect()
        .encode(
            x=alt.X("x_low:Q", scale=scale["x"], title="samples per dimension n/d"),
            x2="x_high:Q",
            y=alt.Y("y_low:Q", scale=scale["y"], title="1 - mean cosine"),
            y2="y_high:Q",
            color=color,
            stroke=alt.Stroke("change:Q", scale=colors, legend=None),
            tooltip=told,
        )
    )
    measured = (
        alt.Chart(alt.NamedData("places"))
        .transform_filter("datum.activation == activation")
        .transform_calculate(change=change)
        .transform_filter("isValid(datum.change)")
    )
    where = {"x": alt.X("x:Q", scale=scale["x"]), "y": alt.Y("y:Q", scale=scale["y"])}
    discs = (
        measured.transform_filter("datum.shape != 'data'")
        .mark_circle(opacity=1, strokeWidth=0.7)
        .encode(
            **where, color=color, size=_marked(40, 160), stroke=alt.value("white"), tooltip=told
        )
    )
    data = measured.transform_filter("datum.shape == 'data'").encode(**where)
    marks = data.mark_point(filled=True, shape="diamond", opacity=1, strokeWidth=2).encode(
        color=color,
        size=_marked(170, 420),
        stroke=alt.value("white"),
        tooltip=["dataset:N", *told],
    )
    text = {"dx": -11, "align": "right", "fontSize": 11, "fontWeight": "bold"}
    halo = data.mark_text(**text, stroke="white", strokeWidth=3).encode(text="name:N")
    names = data.mark_text(**text, color="black").encode(text="name:N")
    signals = {"activation": "", "start": "0", "stop": "1", "marked": []}
    return _spec(alt.layer(field, discs, marks, halo, names), signals)


def pair() -> Spec:
    """Return what depth does to the angle of two samples."""
    shown = "datum.activation == activation && datum.depth == depth"
    base = alt.Chart(alt.NamedData("pairs")).transform_filter(shown)
    x = alt.X("angle:Q", title="input angle θ (degrees)", scale=alt.Scale(domain=[0, 180]))
    y = alt.Y("gradient:Q", title="angle after L layers (degrees)", scale=alt.Scale(zero=True))
    curve = base.mark_line(strokeWidth=2.4, color=COLORS[0]).encode(x=x, y=y)
    embedding = base.mark_line(strokeDash=[5, 3], color=COLORS[1]).encode(x=x, y="embedding:Q")
    same = (
        alt.Chart(alt.Data(values=[{"angle": 0}, {"angle": 90}]))
        .mark_line(strokeWidth=0.7, opacity=0.6)
        .encode(x=x, y=alt.Y("angle:Q"))
    )
    near = "abs(datum.angle - theta)"
    spot = (
        base.transform_calculate(off=near)
        .transform_window(rank="rank()", sort=[alt.SortField("off")])
        .transform_filter("datum.rank == 1")
        .mark_point(filled=True, size=110, opacity=1, color=COLORS[0])
        .encode(x=x, y=y, tooltip=[alt.Tooltip("gradient:Q", format=NUMBER, title="φ")])
    )
    here = (
        alt.Chart(alt.Data(values=[{}]))
        .mark_rule(strokeDash=[2, 3])
        .encode(x=alt.datum(alt.expr("theta"), type="quantitative"))
    )
    return _spec(
        alt.layer(same, curve, embedding, here, spot),
        {"activation": "relu", "depth": 1, "theta": 20.0},
    )


#: The tables of a run that the charts show, each with the view that it enters, if any.
TABLES = {
    **dict.fromkeys(("spectra", "conditioning", "angles"), "depth"),
    **dict.fromkeys(("training", "learning_rates", "predictions"), "training"),
    "phase": "map",
    "phase_laws": "laws",
    "claims": None,
}
#: The charts by name.
CHARTS: Mapping[str, Callable[[], Spec]] = {
    "depth_kappa": depth_kappa,
    "depth_angle": depth_angle,
    "spectrum": spectrum,
    "training_curves": training_curves,
    "training_rates": training_rates,
    "phase_map": phase_map,
    "pair": pair,
}


def _in(keys: str) -> str:
    return f"indexof({keys}, datum.key) >= 0"


def _marked(plain: int, marked: int) -> Any:
    return alt.condition(_in("marked"), alt.value(marked), alt.value(plain))


def _ring() -> Any:
    return alt.condition(_in("marked"), alt.value("#E69F00"), alt.value(None))


def _legend() -> alt.Legend:
    return alt.Legend(orient="bottom", symbolLimit=30, labelLimit=220, symbolSize=120)


def _axis() -> alt.Axis:
    """Return an axis whose numbers are short at every scale."""
    power = "replace(format(datum.value, '~e'), 'e+', 'e')"
    plain = "datum.value == 0 || (datum.value >= 0.001 && datum.value < 10000)"
    return alt.Axis(labelExpr=f"{plain} ? format(datum.value, '~g') : {power}", tickCount=6)


def _spec(chart: alt.LayerChart, signals: Mapping[str, Any]) -> Spec:
    """Return a chart as wide as its place on the page, with the signals that controls set."""
    params = [alt.param(name=name, value=value) for name, value in signals.items()]
    sized = chart.properties(width="container", height=320).add_params(*params)
    spec: Spec = sized.to_dict(format="vega-lite", validate=True)
    return spec


def described() -> str:
    """Return the tables, and the charts in Vega-Lite, as the file has them: each in a line."""
    charts = (f"{json.dumps(name)}: {json.dumps(make())}" for name, make in CHARTS.items())
    return f'{{"tables": {json.dumps(TABLES)},\n"charts": {{\n' + ",\n".join(charts) + "\n}}\n"

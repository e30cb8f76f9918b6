"""The explorer's page: charts, their data and the library that draws them, in one file."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import vl_convert
from markupsafe import Markup

from ntk_workflow.claims.papers import Paper
from ntk_workflow.explorer import data
from ntk_workflow.explorer.charts import CHARTS
from ntk_workflow.explorer.data import Tables
from ntk_workflow.explorer.pairs import pairs
from ntk_workflow.pages.rendering import in_script, render

#: Charts that can be shown only with data of this name.
NEEDED = {
    "depth_kappa": "depth",
    "depth_angle": "depth",
    "spectrum": "spectra",
    "training_curves": "training",
    "training_rates": "training",
    "phase_map": "laws",
    "pair": "pairs",
}
#: Views, each with a chart that it cannot do without.
VIEWS = {"depth": "depth_kappa", "spectrum": "spectrum", "training": "training_curves"}
VIEWS |= {"map": "phase_map", "theory": "pair"}


def page(run: str, tables: Tables, papers: Sequence[Paper]) -> str:
    """Return the page; views whose tables the run does not have are left out."""
    frames = {
        "depth": data.depth(tables),
        "spectra": data.spectra(tables),
        "training": data.training(tables),
        "laws": data.laws(tables),
        "places": data.places(tables),
        "pairs": pairs(),
    }
    if not frames["training"].empty:
        rows = frames["training"]
        network = rows["experiment"] + " · " + rows["dataset"] + " · " + rows["model"]
        frames["training"] = rows.assign(network=network + " · " + rows["activation"])
    held = {name: data.columns(rows) for name, rows in frames.items() if not rows.empty}
    specs = {name: spec for name, spec in deepcopy(CHARTS).items() if NEEDED[name] in held}
    for name, spec in specs.items():
        _fix_scales(spec, held[NEEDED[name]])
    content = {"data": held, "specs": specs, "claims": data.claims(tables, papers)}
    return render(
        "explorer.html.j2",
        title=f"Explorer of the run {run}",
        views=[*(view for view, chart in VIEWS.items() if chart in specs), "claims"],
        content=in_script(content),
        library=_library(),
    )


@cache  # it takes a second to put together
def _library() -> Markup:
    """Return the library that draws charts, for an element `script`."""
    text = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks a default
    return Markup(text.replace("</script", r"<\/script"))


def _fix_scales(spec: dict[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
    """Let a name keep its colour, dash and shape whatever is shown, and depths have their ticks."""
    for encoding in (layer["encoding"] for layer in spec["layer"]):
        for channel in {"color", "shape", "strokeDash"} & set(encoding):
            of = encoding[channel]
            if of.get("type") == "nominal":
                names = sorted({name for name in rows[of["field"]] if name is not None})
                of["scale"] = {**of.get("scale", {}), "domain": names}
        if "values" in encoding.get("x", {}).get("axis", {}):
            encoding["x"]["axis"]["values"] = sorted(set(rows["depth"]))

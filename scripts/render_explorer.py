"""Write the explorer of a run: one page with charts that answer to controls, without a network."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from ntk_conditioning import tables
from ntk_conditioning.files import write_text
from ntk_conditioning.plotting import looks
from ntk_workflow.claims.papers import load
from ntk_workflow.cli import Argv, Parser, program
from ntk_workflow.explorer import data
from ntk_workflow.explorer.charts import CHARTS
from ntk_workflow.pages.rendering import render


def fix_scales(chart: dict[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
    """Draw and call every name as the figures do, whatever is shown; depths have their ticks."""
    for encoding in (layer["encoding"] for layer in chart["layer"]):
        for channel in {"color", "shape", "strokeDash"} & set(encoding):
            field = encoding[channel]
            if field.get("type") == "nominal":
                column = field["field"]
                names = sorted({name for name in rows[column] if name is not None})
                labels = {name: looks.label(column, name) for name in names}
                look = looks.vega_range(channel, column, names)
                field["scale"] = {"domain": names, "range": look}
                (field.get("legend") or {})["labelExpr"] = f"{json.dumps(labels)}[datum.label]"
        if "values" in encoding.get("x", {}).get("axis", {}):
            encoding["x"]["axis"]["values"] = sorted(set(rows["depth"]))


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--run", required=True, help="name of the run, for the title")
    parser.add_argument("--papers", type=Path, nargs="*", default=[], help="papers/*.yaml")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="tables (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    papers = [load(path) for path in args.papers]
    frames = {path.stem: tables.read(path, path.stem).to_pandas() for path in args.tables}
    views = (data.depth, data.spectra, data.training, data.laws, data.places)
    shown = {view.__name__: view(frames) for view in views} | {"pairs": data.pairs()}
    held = {name: data.columns(rows) for name, rows in shown.items() if not rows.empty}
    charts = {}
    for name, chart in deepcopy(CHARTS).items():
        source = re.findall(r"'data': {'name': '(\w+)'}", str(chart))[0]
        if source in held:  # charts whose tables the run does not have are left out
            charts[name] = chart
            fix_scales(chart, held[source])
    claims = data.claims(frames, papers, shown | {"map": shown["places"]})
    labels = {}
    for column in ("dataset", "activation"):
        names = {name for rows in held.values() for name in rows.get(column, ()) if name}
        labels[column] = {name: looks.label(column, name) for name in names}
    content = {"data": held, "specs": charts, "claims": claims, "labels": labels}
    library = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks a default
    page = render(
        "explorer.html.j2",
        title=f"Explorer of the run {args.run}",
        charts=[*charts],
        findings=[claim for claim in claims if claim["main"]][:3],
        answers=data.answers(shown["depth"]) if "depth" in held else [],
        content=content,
        library=Markup(library.replace("</script", r"<\/script")),
    )
    write_text(args.output, page)

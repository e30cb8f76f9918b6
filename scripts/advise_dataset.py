"""Advise on your samples: what to normalise first, which activation, how deep, how wide.

DATA is a prepared dataset (.npz), as a run has it, or your table (.csv, .parquet).
"""

import base64
from pathlib import Path

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.advice.drawing import draw
from ntk_conditioning.advice.recommendations import advise
from ntk_conditioning.advice.words import in_words, number
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.readers.tables import read_csv, read_parquet
from ntk_conditioning.files import scratch_folder, write_text
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting.looks import label
from ntk_conditioning.plotting.theme import save_figure
from ntk_conditioning.threads import limit_threads
from ntk_workflow import cli
from ntk_workflow.pages.rendering import render

ACTIVATIONS = (
    *("relu", "leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus", "normrelu"),
    *(f"normalized_{name}" for name in ("relu", "gelu", "sigmoid", "softplus")),
)
DEPTHS = (1, 2, 4, 8, 16, 32, 64)


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = ("dataset", "activation-file", "threads", "output")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz), .csv or .parquet")
    add("--labels", help="column of a table with labels; without it all columns are features")
    add("--activation", nargs="+", default=[], help="further activations")
    add("--page", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    limit_threads(1)  # threads have an activation each
    sigmas = activations.load([*ACTIVATIONS, *args.activation], args.activation_file)
    if args.data.suffix == ".npz":
        data = load_prepared(args.data)
        x, labels = data.x, data.y
    else:
        read = read_parquet if args.data.suffix == ".parquet" else read_csv
        table = read(args.data, labels=args.labels)
        x, labels = table.features().astype(np.float64), table.labels()
    cli.log.info("device cpu, float64, n %d, d %d", *x.shape)
    kernels = {"activations": [*sigmas.values()], "depths": DEPTHS, "threads": args.threads}
    advice = advise(args.dataset, x, labels, **kernels)
    facts = {"dataset": advice.name, "preparation": advice.preparation, "n": advice.block}
    widest = advice.networks.drop_duplicates(["activation", "depth"], keep="last")
    finite = widest.rename(columns={"trusted": "trusted_width"})
    columns = ["activation", "depth", "excess", "trusted_width"]
    table = advice.predictions.assign(**facts).merge(finite[columns], "left", on=columns[:2])
    kappas = {
        label("activation", name): [number(kappa) for kappa in rows.kappa]
        for name, rows in table.groupby("activation", sort=False)
    }
    sections = in_words(advice)
    with scratch_folder() as folder:
        picture = folder / "advice.png"
        save_figure(draw(advice), pdf=folder / "advice.pdf", png=picture)
        page = render(
            "advice.html.j2",
            title=f"Advice on {advice.name}",
            sections=sections,
            picture=base64.b64encode(picture.read_bytes()).decode(),
            depths=DEPTHS,
            kappas=kappas,
            block=advice.block,
        )
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    tables.write(args.output, "advice", rows)
    write_text(args.page, page)
    cli.log.info("what to do first: %s", " ".join(sections["What to do first"]))

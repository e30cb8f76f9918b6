"""Advise on one's own samples: what to normalise first, which activation, how deep, how wide.

DATA is a prepared dataset (.npz), as a run has it, or a table (.csv, .parquet) of one's own.
"""

import base64
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.advice.advise import Advice, advise
from ntk_conditioning.advice.drawing import draw
from ntk_conditioning.advice.words import in_words, number
from ntk_conditioning.data.readers.tables import read_csv, read_parquet
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import scratch_folder, write_text
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting.style import save_figure
from ntk_workflow import cli
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files
from ntk_workflow.pages.rendering import render
from ntk_workflow.samples import load_samples

ACTIVATIONS = (
    *("relu", "leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus", "normrelu"),
    *(f"normalized_{name}" for name in ("relu", "gelu", "sigmoid", "softplus")),
)
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz), .csv or .parquet")
    add("--dataset", required=True, help="name written into the table and on the page")
    add("--labels", help="column of a table with labels; without it all columns are features")
    add("--activation", nargs="+", default=[], help="further activations")
    activation_files_argument(parser)
    cli.threads_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    add("--page", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    cli.limit_threads(1)  # threads have an activation each
    load_activation_files(args.activation_file)
    x, labels = samples(args.data, args.labels)
    log.info("device cpu, float64, n %d, d %d", *x.shape)
    sigmas = [activations.get(name) for name in dict.fromkeys([*ACTIVATIONS, *args.activation])]
    kernels: Any = {"activations": sigmas, "depths": DEPTHS, "threads": args.threads}
    advice = advise(args.dataset, x, labels, **kernels)
    written = page(advice)  # before any file
    tables.write(args.output, "advice", tables.from_rows("advice", rows(advice)))
    write_text(args.page, written)
    first = in_words(advice)[1]
    log.info("%s: %s", first.title, " ".join(first.sentences))


def samples(path: Path, labels: str | None) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """Return features (n, d) and labels (n,), if there are any."""
    if path.suffix == ".npz":
        if labels:
            raise UserError("a prepared dataset has its labels; leave --labels out")
        data = load_samples(path)
        return data.x, data.y
    read = read_parquet if path.suffix == ".parquet" else read_csv
    raw = read(path, labels=labels)
    return raw.features().astype(np.float64), raw.labels()


def rows(advice: Advice) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    widest = max((each.width for each in advice.networks), default=0)
    drawn = {
        (each.activation, each.depth): each for each in advice.networks if each.width == widest
    }
    found = []
    for each in advice.predictions:
        advised = each.preparation == advice.preparation
        finite = drawn.get((each.activation, each.depth)) if advised else None
        found.append(
            {
                "dataset": advice.name,
                "advised": advised,
                "n": advice.block,
                **vars(each),
                "excess": finite and finite.excess,
                "trusted_width": finite and finite.trusted,
            }
        )
    return found


def page(advice: Advice) -> str:
    """Return the page, with its figure in it."""
    with scratch_folder() as folder:
        files = {kind: folder / f"advice.{kind}" for kind in ("pdf", "png")}
        save_figure(draw(advice), **files)
        picture = base64.b64encode(files["png"].read_bytes()).decode()
    kappas: dict[str, list[str]] = {}
    for each in advice.predictions:
        if each.preparation == advice.preparation:
            kappas.setdefault(each.activation, []).append(number(each.kappa))
    return render(
        "advice.html.j2",
        title=f"Advice on {advice.name}",
        sections=in_words(advice),
        picture=picture,
        alt="kappa by preparation, by depth, and of finite networks",
        depths=DEPTHS,
        kappas=kappas,
        block=advice.block,
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""Describe a prepared dataset: classes, norms, rank, equal samples and the smallest angle.

What the source was like is taken from the light datasheet that prepare_dataset.py wrote beside it.
"""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.data import datasheets
from ntk_conditioning.data.prepared import load_prepared
from ntk_workflow import cli

KNOWN = ("n", "d", "seed", "classes", "dtype", "scaling", "min", "max", "sha256")


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("data", "dataset", "threads", "output", description=__doc__)
    parser.add_argument("--datasheet", type=Path, required=True, help="its datasheet (.json)")
    args = parser.parse_args(argv)

    written = json.loads(args.datasheet.read_text(encoding="utf-8"))
    sheet, data = {key: written[key] for key in KNOWN}, load_prepared(args.data)
    cli.log.info("device cpu, float64, n %d, d %d", *data.x.shape)
    geometry = datasheets.geometry(data.x)
    sizes = [] if data.y is None else np.unique(data.y, return_counts=True)[1].tolist()
    classes = {"class_min": min(sizes, default=None), "class_max": max(sizes, default=None)}
    row = {"dataset": args.dataset, **sheet, **classes, **asdict(geometry)}
    tables.write(args.output, "datasets", [row])

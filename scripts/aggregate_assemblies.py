"""Collect the widths of all networks of a study of assemblies of neurons into one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.tables.collection import collect
from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_workflow.cli import Parser, positive_integer, run_main

TABLES = {table.name: table for table in (ORTHOGONALITY, LINEARITY)}


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--study", choices=TABLES, required=True, help="the table")
    add("--cells", type=Path, required=True, help="folder of the cells")
    add("--datasets", nargs="+", required=True, help="datasets of the study")
    add("--architectures", nargs="+", required=True, help="architectures of the study")
    add("--activations", nargs="+", required=True, help="activations of the study")
    add("--widths", type=positive_integer, nargs="+", required=True, help="widths of the study")
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    points = product(args.datasets, args.architectures, args.activations, args.widths)
    paths = [
        args.cells / dataset / architecture / activation / f"width-{width}.parquet"
        for dataset, architecture, activation, width in points
    ]
    table = TABLES[args.study]
    tables.write(args.output, table, collect(paths, table))
    return 0


if __name__ == "__main__":
    sys.exit(main())

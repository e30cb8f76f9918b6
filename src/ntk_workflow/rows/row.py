"""A row as one file: its cells one by one, those with a checkpoint read instead of computed."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.tables import Table
from ntk_workflow.checkpoints.cells import Cell, Checkpoints
from ntk_workflow.cli import Parser, UsageError, logger, threads_argument
from ntk_workflow.cli_activations import activations_argument
from ntk_workflow.progress import progress

log = logger(__file__)


def row_parser(description: str | None) -> Parser:
    """Return a parser with the options of every program that computes a row."""
    parser = Parser(description=description)
    add = parser.add_argument
    add("--dataset", required=True, help="name written into the table")
    activations_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    add("--checkpoints", type=Path, help="folder in which cells that are done are kept")
    threads_argument(parser)
    return parser


def write_row(
    args: argparse.Namespace,
    table: Table,
    cells: Sequence[Cell],
    compute: Callable[[Cell], Iterable[Mapping[str, Any]]],
    *,
    program: str,
) -> None:
    """Write the rows of the table that ``compute`` returns of every cell, for a ``program`` (file).

    The file is the same whatever the order of the cells, and whichever had a checkpoint.
    """
    if len({cell.place for cell in cells}) < len(cells):
        problem = f"an activation, a seed or a {cells[0].axis} is given twice; give each once"
        raise UsageError(problem)
    checkpoints = Checkpoints(args, program) if args.checkpoints else None
    parts = []
    for cell in progress(cells, unit="cell", log=log):
        kept = checkpoints.read(cell, table) if checkpoints else None
        data = tables.from_rows(table, compute(cell)) if kept is None else kept
        if checkpoints and kept is None:
            checkpoints.write(cell, table, data)
        log.info("%s: %s", cell.name, "computed" if kept is None else "kept")
        parts.append(data)
    tables.write(args.output, table, pa.concat_tables(parts))

"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ntk_conditioning.kernels import infinite
from ntk_conditioning.tables.angles import ANGLES
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import logger, run_main, seed
from ntk_workflow.cli_activations import load_activation
from ntk_workflow.rows.angles import angle_row
from ntk_workflow.rows.depths import depth_cells, depth_list, depth_parser, samples_reader
from ntk_workflow.rows.row import checkpoints_of, write_row

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    activation = load_activation(args)
    log.info("device cpu, float64, infinite width, %s", depth_list(args.depths))
    labels = {"kernel": "infinite_ntk", "dataset": args.dataset, "activation": args.activation}
    samples = samples_reader()

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        x = samples(cell.data)
        try:
            found = infinite.min_angle(
                x,
                depth=cell.value,
                activation=activation,
                exclude_duplicates=args.exclude_duplicates,
            )
        except infinite.UnresolvedKernelError as error:
            raise infinite.UnresolvedKernelError(f"{args.dataset}: {error}") from None
        yield angle_row(found, x, labels | {"width": None} | cell.coordinates)

    cells = depth_cells(args.data, args.depths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, ANGLES, cells, compute, checkpoints=kept)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = depth_parser(__doc__, seed_type=seed_or_none)
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    return parser.parse_args(argv)


def seed_or_none(text: str) -> int | None:
    """Return a seed, or None of ``none``, for a whole dataset; a type for `add_argument`."""
    return None if text == "none" else seed(text)


if __name__ == "__main__":
    sys.exit(main())

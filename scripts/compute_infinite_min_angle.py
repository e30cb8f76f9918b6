"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cell import cell_parser, load
from cell_angles import angle_row
from cli import logger, run_main

from ntk_conditioning import infinite, tables
from ntk_conditioning.tables.angles import ANGLES

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    x, activation = load(args)
    log.info("device cpu, float64, infinite width, depth %d, n %d", args.depth, len(x))
    found = infinite.min_angle(
        x, depth=args.depth, activation=activation, exclude_duplicates=args.exclude_duplicates
    )
    row = angle_row(args, x, found, labels={"kernel": "infinite_ntk", "seed": None, "width": None})
    tables.write(args.output, ANGLES, tables.from_rows(ANGLES, [row]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

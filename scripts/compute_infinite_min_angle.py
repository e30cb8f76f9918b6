"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cell import cell_parser, load_activation
from cell_angles import angle_row
from cli import logger, run_main, seed

from ntk_conditioning import infinite, tables
from ntk_conditioning.prepared import load_prepared
from ntk_conditioning.tables.angles import ANGLES

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="prepared dataset (.npz)")
    parser.add_argument("--seed", type=seed, help="seed with which its samples were drawn, if any")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    activation = load_activation(args)
    x = load_prepared(args.data).x
    log.info("device cpu, float64, infinite width, depth %d", args.depth)
    found = infinite.min_angle(
        x, depth=args.depth, activation=activation, exclude_duplicates=args.exclude_duplicates
    )
    labels = {"kernel": "infinite_ntk", "seed": args.seed, "width": None}
    row = angle_row(args, x, found, labels=labels)
    tables.write(args.output, ANGLES, tables.from_rows(ANGLES, [row]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

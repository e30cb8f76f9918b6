"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cell import cell_parser, depth_list, each_cell, load_activation
from cell_angles import angle_row
from cli import logger, run_main, seed

from ntk_conditioning import infinite
from ntk_conditioning.tables.angles import ANGLES

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    parser.add_argument(
        "--seeds",
        type=seed_or_none,
        nargs="+",
        required=True,
        help="seeds with which the samples were drawn; none for a whole dataset",
    )
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    activation = load_activation(args)
    log.info("device cpu, float64, infinite width, %s", depth_list(args.depths))
    labels = {"kernel": "infinite_ntk", "width": None}
    for cell in each_cell(args, ANGLES, program=__file__):
        try:
            found = infinite.min_angle(
                cell.x,
                depth=cell.depth,
                activation=activation,
                exclude_duplicates=args.exclude_duplicates,
            )
        except infinite.UnresolvedKernelError as error:
            raise infinite.UnresolvedKernelError(f"{args.dataset}: {error}") from None
        cell.write([angle_row(args, cell, found, labels=labels)])
    return 0


def seed_or_none(text: str) -> int | None:
    """Return a seed, or None of ``none``; a type for `Parser.add_argument`."""
    return None if text == "none" else seed(text)


if __name__ == "__main__":
    sys.exit(main())

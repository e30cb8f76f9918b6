"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.kernels import infinite
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, run_main, seed
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.rows.angles import angle_rows
from ntk_workflow.rows.depths import depth_parser, write_depths


@run_main
def main(argv: Argv = None) -> None:
    parser = depth_parser(__doc__, seed_type=seed_or_none)
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    parser.set_defaults(kernel="infinite_ntk")
    args = parser.parse_args(argv)
    sigmas, options = load_activations(args), {"exclude_duplicates": args.exclude_duplicates}

    def compute(cell: Cell, x: NDArray[np.float64]) -> list[dict[str, Any]]:
        try:
            sigma = sigmas[cell.activation]
            found = infinite.min_angle(x, depth=cell.value, activation=sigma, **options)
        except infinite.UnresolvedKernelError as error:
            raise infinite.UnresolvedKernelError(f"{args.dataset}: {error}") from None
        return angle_rows(found, x)

    write_depths(args, tables.get("angles"), compute, program=__file__)


def seed_or_none(text: str) -> int | None:
    """Return a seed, or None of ``none``, for a whole dataset; a type for `add_argument`."""
    return None if text == "none" else seed(text)


if __name__ == "__main__":
    raise SystemExit(main())

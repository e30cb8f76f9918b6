"""Describe a prepared dataset: classes, norms, rank, equal samples and the smallest angle.

What the source was like is taken from the light datasheet that prepare_dataset.py wrote beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.data import datasheets
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import require_file
from ntk_conditioning.tables.datasets import DATASETS
from ntk_workflow.cli import (
    HOW_TO_PREPARE,
    Parser,
    limit_threads,
    logger,
    run_main,
    threads_argument,
)

KNOWN = ("n", "d", "seed", "classes", "dtype", "scaling", "min", "max", "sha256")
log = logger(__file__)


class DatasheetError(UserError):
    """A file is no datasheet, or is that of other samples."""


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="prepared dataset (.npz)")
    parser.add_argument("--datasheet", type=Path, required=True, help="its datasheet (.json)")
    parser.add_argument("--dataset", required=True, help="name written into the table")
    threads_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    limit_threads(args.threads)
    known = read_datasheet(args.datasheet)
    data = load_prepared(args.data, hint=HOW_TO_PREPARE)
    if data.x.shape != (known["n"], known["d"]):
        raise DatasheetError(
            f"{args.datasheet} is of {known['n']} samples of {known['d']} features, {args.data} "
            "has {} of {}; give the two that were written together".format(*data.x.shape)
        )
    log.info("device cpu, float64, n %d, d %d", *data.x.shape)
    found = datasheets.geometry(data.x)
    sizes = datasheets.class_sizes(data.y)
    row = {
        "dataset": args.dataset,
        **known,
        "class_min": None if sizes is None else int(sizes.min()),
        "class_max": None if sizes is None else int(sizes.max()),
        **asdict(found),
    }
    log.info("rank %d, smallest angle %s degrees", found.gram_rank, found.min_angle)
    if found.duplicates:
        log.warning("%d pairs of equal samples (angle 0)", found.duplicates)
    tables.write(args.output, DATASETS, tables.from_rows(DATASETS, [row]))
    return 0


def read_datasheet(path: Path) -> dict[str, Any]:
    """Return what a datasheet tells of the source.

    Raises:
        MissingFileError: if there is no such file.
        DatasheetError: if it is no datasheet.
    """
    require_file(path)
    try:
        sheet = json.loads(path.read_text(encoding="utf-8"))
        return {key: sheet[key] for key in KNOWN}
    except (ValueError, LookupError, TypeError):
        raise DatasheetError(
            f"{path} is no datasheet; make one with scripts/prepare_dataset.py"
        ) from None


if __name__ == "__main__":
    sys.exit(main())

"""Summarise the condition numbers of a run over blocks and seeds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cli import Parser, run_main

from ntk_conditioning import tables
from ntk_conditioning.tables.conditioning import CONDITIONING, summarize
from ntk_conditioning.tables.spectra import SPECTRA


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--spectra", type=Path, required=True, help="table of spectra")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    tables.write(args.output, CONDITIONING, summarize(tables.read(args.spectra, SPECTRA)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the tables' documentation into results/README.md, from the declarations of the tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning.files import write_text
<<<<<<< HEAD
from ntk_conditioning.tables.activations import ACTIVATIONS
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.bounds import BOUNDS
from ntk_conditioning.tables.claim_experiments import CLAIM_EXPERIMENTS
from ntk_conditioning.tables.claims import CLAIMS
from ntk_conditioning.tables.conditioning import CONDITIONING
from ntk_conditioning.tables.datasets import DATASETS
from ntk_conditioning.tables.frames import FRAMES
from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.tables.precision import PRECISION
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_conditioning.tables.training import LEARNING_RATES, TRAINING, TRAINING_KERNELS
from ntk_conditioning.tables.width_slopes import WIDTH_SLOPES
from ntk_workflow.cli import Parser, run_main

TABLES = (
    SPECTRA,
    CONDITIONING,
    ANGLES,
    DATASETS,
    BOUNDS,
    ORTHOGONALITY,
    LINEARITY,
    WIDTH_SLOPES,
    PRECISION,
    ACTIVATIONS,
    TRAINING,
    TRAINING_KERNELS,
    LEARNING_RATES,
    CLAIM_EXPERIMENTS,
    CLAIMS,
    FRAMES,
)
=======
from ntk_conditioning.tables.registry import TABLES
from ntk_workflow.cli import Parser, run_main

>>>>>>> rows
README = Path(__file__).resolve().parents[1] / "results" / "README.md"
START, END = "<!-- tables: written by scripts/document_tables.py -->\n", "<!-- end of tables -->\n"


def documented(text: str) -> str:
    """Return a page with the part between the marks replaced by what the tables declare."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    sections = "\n".join(table.markdown() for table in TABLES.values())
    return f"{head}{START}\n{sections}\n{END}{tail}"


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--page", type=Path, default=README, help="page to bring up to date")
    args = parser.parse_args(argv)
    text = documented(args.page.read_text(encoding="utf-8"))
    write_text(args.page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

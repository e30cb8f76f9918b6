"""Up to which kappa recipes are right, for docs/numerics.md, as the demo measures it."""

import math
from pathlib import Path

from docs.build.marked import markdown_table
from ntk_conditioning.spectra.precision import measure, problems
from ntk_workflow.config import read_yaml

ROOT = Path(__file__).parents[2]
#: An error that counts as none.
RIGHT = 0.01
WORDS = {
    "float64": "float64",
    "extremes": "float64, the ends of the spectrum alone",
    "float32": "float32 with the floor",
    "float32_symmetric": "float32 without a floor",
    "float32_general": "the same by a general solver, the published code of `liu2023relu`",
    "factor": "factor, linear networks",
    "deficits": "infinite width, cosine distances",
    "cosine": "infinite width, the usual arccosines",
    "cosine_float32": "the same in float32",
}


def in_markdown() -> str:
    """Return how far each recipe is right, and what it reports where it is not."""
    study = read_yaml(ROOT / "config.yaml")["precision_study"]
    measured = [each for problem in problems(**study) for each in measure(problem)]
    cells = []
    for method, words in WORDS.items():
        found = [each for each in measured if each.method == method]
        wrong = min(
            (m.kappa_reference for m in found if m.relative_error > RIGHT), default=math.inf
        )
        right = max(m.kappa_reference for m in found if m.kappa_reference < wrong)
        beyond = [m for m in found if m.kappa_reference >= wrong]
        says = "wrong numbers, as if they were right" if beyond else "–"
        if not all(m.resolved for m in beyond):
            floor = min(m.floor_kappa for m in beyond)
            says = f"no kappa, from the floor of {_shown(floor)} on"
        cells.append([words, _shown(right), _shown(wrong) if beyond else "–", says])
    return markdown_table(
        ["recipe", "right to 1 % up to kappa", "wrong from", "reported there"], cells
    )


def _shown(value: float) -> str:
    return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")

"""Up to which kappa recipes are right, for docs/numerics.md, as the demo measures it."""

import math
from collections import defaultdict
from pathlib import Path

import yaml

from docs.build.marked import markdown_table
from ntk_conditioning.spectra.precision import Measurement, measure, problems

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
    study = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["precision_study"]
    found: defaultdict[str, list[Measurement]] = defaultdict(list)
    for problem in problems(**study):
        for each in measure(problem):
            found[each.method].append(each)
    head = ["recipe", "right to 1 % up to kappa", "wrong from", "reported there"]
    return markdown_table(head, [[WORDS[name], *_limits(found[name])] for name in WORDS])


def _limits(found: list[Measurement]) -> list[str]:
    wrong = min((m.kappa_reference for m in found if m.error > RIGHT), default=math.inf)
    right = _shown(max(m.kappa_reference for m in found if m.kappa_reference < wrong))
    beyond = [m for m in found if m.kappa_reference >= wrong]
    if not beyond:
        return [right, "–", "–"]
    if any(m.estimate.resolved for m in beyond):
        return [right, _shown(wrong), "wrong numbers, as if they were right"]
    floor = min(m.estimate.floor_kappa for m in beyond)
    return [right, _shown(wrong), f"no kappa, from the floor of {_shown(floor)} on"]


def _shown(value: float) -> str:
    return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")

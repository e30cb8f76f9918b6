"""The example of docs/advice.md: what the advice says of the wines."""

from pathlib import Path

import numpy as np

from ntk_conditioning.advice.recommendations import advise
from ntk_conditioning.advice.words import in_words
from ntk_conditioning.data.readers.tables import read_csv
from ntk_conditioning.networks import activations

ROOT = Path(__file__).parents[2]


def in_markdown() -> str:
    """Return what is said of the samples, and what is to be done first, in Markdown."""
    wine = read_csv(ROOT / "docs/examples/wine.csv", labels="cultivar")
    x, sigmas = wine.features().astype(np.float64), [activations.get("relu")]
    sections = in_words(advise("wine", x, wine.labels(), activations=sigmas, depths=(1,)))
    lines = []
    for title in ("Your samples", "What to do first"):
        lines += [f"> **{title}**", ">", *(f"> - {sentence}" for sentence in sections[title]), ">"]
    return "\n".join(lines[:-1])

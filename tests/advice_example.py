"""Write the example of docs/advice.md: what the advice says of the wines.

PYTHONPATH=src:scripts python -m tests.advice_example
"""

from pathlib import Path

import advise_dataset

from ntk_conditioning.advice.advise import advise
from ntk_conditioning.advice.words import in_words
from ntk_conditioning.networks import activations

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/advice.md"
START = "<!-- advice: written by python -m tests.advice_example -->\n"
END = "<!-- end of advice -->\n"


def example() -> str:
    """Return what is said of the samples, and what is to be done first, in Markdown."""
    x, labels = advise_dataset.samples(ROOT / "examples/wine.csv", "cultivar")
    sigmas = [activations.get("relu")]
    sections = in_words(advise("wine", x, labels, activations=sigmas, depths=(1,)))[:2]
    lines = []
    for section in sections:
        lines += [f"> **{section.title}**", ">", *(f"> - {each}" for each in section.sentences)]
        lines.append(">")
    return "\n".join(lines[:-1]) + "\n"


def page() -> str:
    """Return docs/advice.md with the example as it is now."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{head}{START}\n{example()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

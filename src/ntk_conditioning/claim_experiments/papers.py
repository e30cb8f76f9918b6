"""The papers that have numerical experiments.

They are imported here by name, so that a digest of what a program imports covers them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ntk_conditioning.claim_experiments import (
    Measurement,
    Setting,
    agarwal2021deep,
    liu2022transition,
    liu2023relu,
)
from ntk_conditioning.errors import UserError

PAPERS = {
    "liu2023relu": liu2023relu.EXPERIMENTS,
    "agarwal2021deep": agarwal2021deep.EXPERIMENTS,
    "liu2022transition": liu2022transition.EXPERIMENTS,
}


class UnknownPaperError(UserError):
    """There are no numerical experiments for a paper of this name."""


def measure(paper: str, setting: Setting) -> Iterator[Measurement]:
    """Yield what the experiments of a paper measure.

    Raises:
        UnknownPaperError: if there are none.
    """
    if paper not in PAPERS:
        raise UnknownPaperError(
            f"no experiments for the paper {paper!r}; there are some for {', '.join(PAPERS)}"
        )
    for experiment in PAPERS[paper]:
        yield from experiment(setting)

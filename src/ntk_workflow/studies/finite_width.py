"""Random networks of finite width beside infinite width."""

from collections.abc import Iterator
from typing import Any

from ntk_conditioning.kernels import sampled
from ntk_workflow.checks import names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run

STUDY = "finite_width_study"


def checks(run: Run) -> Iterator[str]:
    yield from names(run, STUDY)


def measure_finite_width(w: Any, config: Config, samples: Samples) -> Size:
    """Draw networks of all widths and depths, and multiply every layer's units."""
    study, seconds = config["finite_width_study"], 0.0
    widths, depths, most = study["widths"], study["depths"], max(study["samples"])
    for n in study["samples"]:
        seconds += sum(widths) * sum(depths) * n * (1e-7 + 20 * FLOP * n)
        seconds += len(widths) * len(depths) * (5e-4 + EIGENVALUES * n**3)
    seconds *= study["networks"] * len(study["seeds"]) * len(study["activations"])
    kept = 2 * max(sampled.MEMORY, 24 * most * max(widths) * max(depths))
    return Size(seconds, PROGRAM + samples.bytes(1) + kept)

"""Random networks of finite width beside infinite width."""

from collections.abc import Iterator
from typing import Any

from ntk_conditioning.kernels import sampled
from ntk_workflow.checks import Known, enough, names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, START, Config, Samples, Size

STUDY = "finite_width_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY)
    for name in study["datasets"]:
        yield from enough(known, max(study["samples"]), name, f"{STUDY}.samples")


#: Seconds to draw a unit of a sample, with the activation and its derivative.
UNIT = 1.2e-7


def measure_finite_width(w: Any, config: Config, samples: Samples) -> Size:
    """Draw networks of all widths and depths, and multiply every layer's units."""
    study = config["finite_width_study"]
    networks = study["networks"] * len(study["seeds"]) * len(study["activations"])
    seconds, units = 0.0, 0
    for width in study["widths"]:
        for depth in (depth for depth in study["depths"] if depth <= width):
            units = max(units, width * depth)
            for n in study["samples"]:
                seconds += width * depth * n * (UNIT + 20 * FLOP * n)
                seconds += 5e-4 + EIGENVALUES * n**3
    kept = 2 * max(sampled.MEMORY, 3 * 8 * max(study["samples"]) * units)
    return Size(START + networks * seconds, PROGRAM + samples.bytes(1) + kept)

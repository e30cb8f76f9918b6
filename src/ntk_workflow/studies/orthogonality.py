"""Angles between the gradients of neurons, after liu2022transition."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, enough, names
from ntk_workflow.config import did_you_mean

STUDY = "orthogonality_study"


def checks(known: Known, study: str = STUDY) -> Iterator[str]:
    """Yield a line for every mistake of the study, or of another whose networks' widths vary."""
    section, architectures = known.config[study], known.config["architectures"]
    yield from names(known, study, labels="the study needs two classes", infinite=False)
    for index, name in enumerate(section["architectures"]):
        place = f"{study}.architectures[{index}]"
        if name not in architectures:
            yield f"{place}: unknown architecture {name!r}; {did_you_mean(name, architectures)}"
        elif "m" not in architectures[name]["hidden"]:
            problem = f"no width of {name} is m, the one that varies; put m in"
            yield f"architectures.{name}.hidden: {problem}"
    for name in section["datasets"]:
        yield from enough(known, section["samples"], name, f"{study}.samples")

"""Kernels at infinite width beside the bounds of agarwal2021deep."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, enough, names

STUDY = "bounds_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY)
    for index, name in enumerate(study["datasets"]):
        if not known.on_sphere(name):
            problem = f"{name} is not on the unit sphere; take one with scaling unit_norm"
            yield f"{STUDY}.datasets[{index}]: {problem}"
        yield from enough(known, study["samples"], name, f"{STUDY}.samples")

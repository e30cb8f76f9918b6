"""Random networks of finite width beside infinite width."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, enough, names

STUDY = "finite_width_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY)
    for name in study["datasets"]:
        yield from enough(known, max(study["samples"]), name, f"{STUDY}.samples")

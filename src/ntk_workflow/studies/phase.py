"""The map of conditioning at infinite width."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, activation_names, names

STUDY = "phase_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY)
    for index, name in enumerate(study["datasets"]):
        if known.shape(name)[1] == 1:
            problem = f"{name} has one feature, and on the sphere two places; remove it"
            yield f"{STUDY}.datasets[{index}]: {problem}"
    large = (study["large"] or {}).get("activations", ())
    yield from activation_names(known, large, f"{STUDY}.large.activations")

"""The grid of activations at infinite width."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, blocks, names

STUDY = "activation_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    yield from names(known, STUDY)
    values = {"samples": "all", "balanced": False, **known.config[STUDY]}
    for name in values["datasets"]:
        yield from blocks(known, name, values, {key: f"{STUDY}.{key}" for key in values})

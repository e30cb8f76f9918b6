"""The constants of activations."""

from collections.abc import Iterator

from ntk_workflow.checks import Known, activation_names

STUDY = "activation_constants"


def checks(known: Known) -> Iterator[str]:
    yield from activation_names(known, known.config[STUDY], STUDY)

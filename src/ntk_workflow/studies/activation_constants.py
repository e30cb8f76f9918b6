"""The constants of activations."""

from collections.abc import Iterator

from ntk_workflow.checks import activation_names
from ntk_workflow.run import Run

STUDY = "activation_constants"


def checks(run: Run) -> Iterator[str]:
    yield from activation_names(run, run.config[STUDY], STUDY)

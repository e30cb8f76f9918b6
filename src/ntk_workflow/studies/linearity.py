"""The expansion of networks in their weights, over width."""

from collections.abc import Iterator

from ntk_workflow.checks import Known
from ntk_workflow.studies import orthogonality

STUDY = "linearity_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    yield from orthogonality.checks(known, STUDY)
    samples, expansions = (known.config[STUDY][key] for key in ("samples", "expansions"))
    if expansions > samples:
        excess = f"{expansions} is more than the {samples} samples of the study"
        yield f"{STUDY}.expansions: {excess}; take fewer"

"""Repairs by preconditioning, of samples and of kernels of infinite width."""

import math
from collections.abc import Iterator

from ntk_workflow.checks import Known, enough, names

STUDY = "repairs_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY, labels="predicted steps need them", infinite=False)
    for index, name in enumerate(study["datasets"]):
        yield from enough(known, study["samples"], name, f"{STUDY}.samples")
        most = min(study["samples"], known.shape(name)[1] or math.inf) - 1
        place = f"{STUDY}.datasets[{index}]"
        if not most:
            yield f"{place}: {name} has one feature, and no direction to leave out; remove it"
        elif max(study["directions"]) > most:
            yield f"{place}: {name} has at most {most} top directions; take fewer directions"

"""How long work takes: ``seconds = startup + flops / rate``, fitted to what earlier jobs took."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ntk_workflow.resources.work import Work


@dataclass(frozen=True)
class Pace:
    """How fast jobs of a kind are: ``startup`` in seconds, then ``rate`` operations per second.

    ``assumed`` says that the numbers come from no measurement.
    """

    startup: float
    rate: float
    assumed: bool = False

    def seconds(self, flops: float, threads: int = 1) -> float:
        """Return the time of a job, where ``threads`` share the work."""
        return self.startup + flops / (self.rate * threads)


#: Of one core, measured on two cores of a server CPU.
DEFAULTS: Mapping[str, Pace] = {
    "prepare_dataset": Pace(1.5, 1e10),
    "describe_dataset": Pace(1.9, 4e10),
    "measure_activations": Pace(6.0, 4e10),
    "measure_precision": Pace(20.0, 4e10),
    "compute_spectrum": Pace(2.4, 4e10),
    "compute_infinite_spectrum": Pace(0.8, 3.3e10),
    "compute_min_angle": Pace(2.8, 4e10),
    "compute_infinite_min_angle": Pace(0.7, 4.5e10),
    "compute_training_kernel": Pace(2.0, 4e10),
    "train_network": Pace(2.5, 4e10),
    "render_figure": Pace(4.2, 4e10),
}
#: Of jobs that are not listed.
LIGHT_PACE = Pace(3.0, 4e10)
#: Of one GPU of a data centre: guesses, until a job on one was seen. Eigenvalues of small blocks
#: are the processor's in any case.
GPU_DEFAULTS: Mapping[str, Pace] = {
    "compute_spectrum": Pace(8.0, 2e11, assumed=True),
    "compute_min_angle": Pace(8.0, 2e12, assumed=True),
    "train_network": Pace(8.0, 2e12, assumed=True),
}

# Jobs that took less than this part of what is usual for their kind did not do all of their work.
_PARTIAL = 1 / 3
# The defaults count as that many observations.
_PRIOR = 2.0


@dataclass(frozen=True)
class Observation:
    """A job that was measured: ``seconds`` of one core, or of the GPU if it had one.

    ``memory`` is its peak in bytes, None if that is not known.
    """

    kind: str
    work: Work
    seconds: float
    memory: float | None = None
    gpu: bool = False


@dataclass(frozen=True)
class Model:
    """What jobs of every kind take, on ``cores`` and on ``gpus``."""

    cores: Mapping[str, Pace] = field(default_factory=lambda: DEFAULTS)
    gpus: Mapping[str, Pace] = field(default_factory=lambda: GPU_DEFAULTS)

    def pace(self, kind: str, *, gpu: bool = False) -> Pace:
        """Return the pace of a kind of job; one that cannot use a GPU has its core's."""
        own = self.cores.get(kind, LIGHT_PACE)
        return self.gpus.get(kind, own) if gpu else own

    def seconds(self, kind: str, work: Work, *, gpu: bool = False, threads: int = 1) -> float:
        """Return how long a job takes.

        >>> Model({"a": Pace(2.0, 1e9)}).seconds("a", Work(4e9, 0.0), threads=2)
        4.0
        """
        return self.pace(kind, gpu=gpu).seconds(work.flops, 1 if gpu else threads)

    def fit(self, observations: Iterable[Observation]) -> Model:
        """Return a model of what was observed, near to this one where that is little.

        Both numbers of a kind minimise the squares of relative errors, so that short jobs count as
        much as long ones. Jobs far below the others of their kind did only a part of their work and
        are left out.
        """
        groups: dict[tuple[str, bool], list[Observation]] = defaultdict(list)
        for observation in observations:
            if observation.seconds > 0:
                groups[observation.kind, observation.gpu].append(observation)
        cores, gpus = dict(self.cores), dict(self.gpus)
        for (kind, gpu), group in groups.items():
            (gpus if gpu else cores)[kind] = _fitted(self.pace(kind, gpu=gpu), group)
        return Model(cores, gpus)


def _fitted(pace: Pace, observations: Sequence[Observation]) -> Pace:
    """Return the pace that explains the observations, by weighted least squares."""
    flops = np.array([observation.work.flops for observation in observations])
    seconds = np.array([observation.seconds for observation in observations])
    ratios = seconds / (pace.startup + flops / pace.rate)
    done = ratios > _PARTIAL * np.median(ratios)
    flops, seconds, ratios = flops[done], seconds[done], ratios[done]
    # The prior is the old pace on a machine that is faster or slower throughout, as far as the
    # observations are enough to say so.
    scale = float(np.median(ratios)) ** (len(ratios) / (len(ratios) + _PRIOR))
    startup, slope = scale * pace.startup, scale / pace.rate
    # In units of the prior's numbers: relative errors of the observations, and of the prior.
    terms = np.stack([np.full_like(flops, startup), flops * slope], axis=1) / seconds[:, None]
    prior = math.sqrt(_PRIOR) * np.eye(2)
    a = np.concatenate([terms, prior])
    b = np.concatenate([np.ones(len(terms)), prior.sum(axis=1)])
    found = np.linalg.lstsq(a, b)[0]
    if found.min() < 0:  # then the solution without negative numbers has a zero there
        kept = int(np.argmax(found))
        found = np.zeros(2)
        found[kept] = a[:, kept] @ b / (a[:, kept] @ a[:, kept])
    slope *= float(found[1])
    return Pace(float(found[0]) * startup, 1 / slope if slope else math.inf)

"""The samples that networks are trained and tested on, for each seed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.seeds import generator
from ntk_workflow.cli import UsageError
from ntk_workflow.samples import load_samples
from ntk_workflow.trainings.settings import TrainingSettings


@dataclass(frozen=True)
class LabelledSamples:
    """Every seed's samples to train on and, if there are any, to test on; all equally many.

    Their ``y`` counts the classes from 0.
    """

    train: Mapping[int, PreparedSamples]
    test: Mapping[int, PreparedSamples]
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number n of training samples and their features d."""
        n, d = next(iter(self.train.values())).x.shape
        return n, d


def labelled_samples(
    path: Path, test: Path | None, dataset: str, settings: TrainingSettings
) -> LabelledSamples:
    """Return the samples of prepared datasets; without a ``test`` set, some may be held out.

    Classes are those of the whole dataset, so that a draw that lacks one has as many.
    """
    if test and settings.test_share:
        raise UsageError("--test and test_share exclude each other; give one of them")
    data = _scaled(load_samples(path), settings)
    if data.y is None:
        raise UsageError(f"{path} has no labels, and training needs them; name a labelled one")
    labels, y = np.unique(data.y, return_inverse=True)
    data = replace(data, y=y)
    seeds = [*settings.seeds, *settings.critical_seeds]
    train, tested = dict.fromkeys(seeds, data), {}
    if test:
        others = _scaled(load_samples(test, like=path), settings)
        if others.y is None:
            raise UsageError(f"{test} has no labels; leave the test set out")
        if len(unknown := np.setdiff1d(others.y, labels)):
            raise UsageError(f"{test} has label {unknown[0]}, which no sample of {path} has")
        tested = dict.fromkeys(seeds, replace(others, y=np.searchsorted(labels, others.y)))
    for seed in train:
        if settings.samples != "all":
            chosen = draw(dataset, len(y), settings.samples, generator=seed_stream(seed))
            train[seed] = data.rows(chosen)
        if settings.test_share:
            n = len(train[seed].x)
            # The first child draws the samples, see `subsets.seed_stream`.
            _, stream = generator(seed, "data").spawn(2)
            chosen = stream.permutation(n)[: round(settings.test_share * n)]
            held = np.isin(np.arange(n), chosen)
            train[seed], tested[seed] = train[seed].rows(~held), train[seed].rows(held)
    return LabelledSamples(train, tested, len(labels))


def _scaled(data: PreparedSamples, settings: TrainingSettings) -> PreparedSamples:
    """Return samples as the networks get them.

    Eq. (1) of liu2023relu has no factor before the first layer, the published code sqrt(2/d). For
    homogeneous activations that only divides outputs and gradients, which a loss other than the
    square one feels.
    """
    if settings.input_scale == "fan_in":
        return replace(data, x=data.x * math.sqrt(2 / data.x.shape[1]))
    return data

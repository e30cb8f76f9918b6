"""The samples that networks are trained and tested on, for each seed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.seeds import generator
from ntk_workflow.cli import UsageError
from ntk_workflow.samples import load_samples
from ntk_workflow.trainings.settings import TrainingSettings


@dataclass(frozen=True)
class LabelledSamples:
    """Every seed's samples, all equally many; ``y`` counts the classes from 0."""

    train: Mapping[int, PreparedSamples]
    test: Mapping[int, PreparedSamples]  # empty if there are none
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
    data, y = _labelled(path, settings)
    labels, y = np.unique(y, return_inverse=True)
    data, tested = replace(data, y=y), {}
    train = dict.fromkeys([*settings.seeds, *settings.critical_seeds], data)
    if test:
        others, tested_y = _labelled(test, settings, like=path)
        if len(unknown := np.setdiff1d(tested_y, labels)):
            raise UsageError(f"{test} has label {unknown[0]}, which no sample of {path} has")
        tested = dict.fromkeys(train, replace(others, y=np.searchsorted(labels, tested_y)))
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


def _labelled(
    path: Path, settings: TrainingSettings, *, like: Path | None = None
) -> tuple[PreparedSamples, NDArray[np.int64]]:
    """Return the samples of a file as the networks get them, and their labels."""
    data = load_samples(path, like=like)
    x, y = data.x, data.y
    if y is None:
        raise UsageError(f"{path} has no labels, and training needs them; name a labelled one")
    # Eq. (1) of liu2023relu has no factor before the first layer, the published code sqrt(2/d). For
    # homogeneous activations that only divides outputs and gradients, which a loss other than the
    # square one feels.
    if settings.input_scale == "fan_in":
        x = x * math.sqrt(2 / x.shape[1])
    return replace(data, x=x), y

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
    """Every seed's samples to train on and, if there are any, to test on.

    Their ``y`` counts the classes from 0. All seeds have equally many.
    """

    train: Mapping[int, PreparedSamples]
    test: Mapping[int, PreparedSamples] | None
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number n of training samples and their features d."""
        n, d = next(iter(self.train.values())).x.shape
        return n, d

    @property
    def n_test(self) -> int:
        """The number of test samples."""
        return len(next(iter(self.test.values())).x) if self.test else 0


def labelled_samples(
    path: Path, test: Path | None, dataset: str, settings: TrainingSettings
) -> LabelledSamples:
    """Return the samples of prepared datasets; without a ``test`` set, some may be held out.

    Classes are those of the whole dataset, so that a draw that lacks one has as many.
    """
    if test and settings.test_share:
        raise UsageError("--test and --test-share exclude each other; give one of them")
    remedy = ", and training needs them; name a labelled one"
    data, y = _labelled(path, settings, remedy=remedy)
    labels, y = np.unique(y, return_inverse=True)
    whole = replace(data, y=y)
    train = dict.fromkeys([*settings.seeds, *settings.critical_seeds], whole)
    if settings.samples != "all":
        for seed in train:
            rows = draw(dataset, len(y), settings.samples, generator=seed_stream(seed))
            train[seed] = whole.rows(rows)
    if settings.test_share:
        held = {seed: _held_out(settings.test_share, seed, len(s.x)) for seed, s in train.items()}
        tested = {seed: train[seed].rows(chosen) for seed, chosen in held.items()}
        train = {seed: train[seed].rows(~chosen) for seed, chosen in held.items()}
        return LabelledSamples(train, tested, len(labels))
    if test is None:
        return LabelledSamples(train, None, len(labels))
    data, y = _labelled(test, settings, like=path, remedy="; leave the test set out")
    unknown = np.setdiff1d(y, labels)
    if len(unknown):
        raise UsageError(f"{test} has label {unknown[0]}, which no sample of {path} has")
    data = replace(data, y=np.searchsorted(labels, y))
    return LabelledSamples(train, dict.fromkeys(train, data), len(labels))


def _labelled(
    path: Path, settings: TrainingSettings, *, remedy: str, like: Path | None = None
) -> tuple[PreparedSamples, NDArray[np.int64]]:
    """Return the samples of a file as the networks get them, and their labels.

    Eq. (1) of liu2023relu has no factor before the first layer, the published code sqrt(2/d). For
    homogeneous activations that only divides outputs and gradients, which a loss other than the
    square one feels.
    """
    data = load_samples(path, like=like)
    if data.y is None:
        raise UsageError(f"{path} has no labels{remedy}")
    if settings.input_scale == "fan_in":
        return replace(data, x=data.x * math.sqrt(2 / data.x.shape[1])), data.y
    return data, data.y


def _held_out(share: float, seed: int, n: int) -> NDArray[np.bool_]:
    """Return which of n samples a seed is tested on."""
    count = round(share * n)
    if not 0 < count < n - 1:
        raise UsageError(
            f"--test-share {share:g} of {n} samples is {count}; leave at least 2 to train on and 1 "
            "to test on"
        )
    # The first child draws the samples, see `subsets.seed_stream`.
    _, stream = generator(seed, "data").spawn(2)
    chosen = np.zeros(n, dtype=bool)
    chosen[stream.permutation(n)[:count]] = True
    return chosen

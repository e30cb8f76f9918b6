"""The samples that networks are trained and tested on, for each seed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ntk_conditioning.data.prepared import PreparedSamples, load_prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.errors import UserError
from ntk_conditioning.seeds import generator
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
    ready: list[PreparedSamples] = []
    for file in [path, test] if test else [path]:
        part = load_prepared(file, like=path if ready else None)
        if part.y is None:
            raise UserError(f"{file} has no labels, and training needs them; name a labelled one")
        if not ready:
            labels = np.unique(part.y)
        if len(unknown := np.setdiff1d(part.y, labels)):
            raise UserError(f"{file} has label {unknown[0]}, which no sample of {path} has")
        # Eq. (1) of liu2023relu has no factor before the first layer, the published code
        # sqrt(2/d). For homogeneous activations that only divides outputs and gradients, which a
        # loss other than the square one feels.
        x = part.x * math.sqrt(2 / part.x.shape[1]) if settings.input_scale == "fan_in" else part.x
        ready.append(replace(part, x=x, y=np.searchsorted(labels, part.y)))
    train = dict.fromkeys([*settings.seeds, *settings.critical_seeds], ready[0])
    tested = dict.fromkeys(train, ready[1]) if test else {}
    for seed, data in train.items():
        if settings.samples != "all":
            chosen = draw(dataset, len(data.x), settings.samples, generator=seed_stream(seed))
            train[seed] = data.rows(chosen)
        if settings.test_share and not test:
            n = len(train[seed].x)
            # The first child draws the samples, see `subsets.seed_stream`.
            _, stream = generator(seed, "data").spawn(2)
            held = np.isin(np.arange(n), stream.permutation(n)[: round(settings.test_share * n)])
            if not 0 < held.sum() < n:
                raise UserError(f"test_share holds out {held.sum()} of {n} samples; give another")
            train[seed], tested[seed] = train[seed].rows(~held), train[seed].rows(held)
    return LabelledSamples(train, tested, len(labels))

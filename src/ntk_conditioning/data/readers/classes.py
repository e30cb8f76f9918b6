"""A choice of classes, for datasets of which a paper takes a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.samples import RawSamples


def keep_classes(samples: RawSamples, classes: Sequence[int] | None) -> RawSamples:
    """Return the samples of some classes, in their order; the labels keep their numbers.

    ``None`` keeps all.

    Raises:
        ContentError: if a class has no sample.

    >>> import numpy as np
    >>> four = RawSamples(np.eye(4), np.array([2, 0, 1, 2]), "four", "four")
    >>> keep_classes(four, [1, 2]).y.tolist()
    [2, 1, 2]
    """
    if classes is None or samples.y is None:
        return samples
    missing = sorted(set(classes) - set(np.unique(samples.y).tolist()))
    if missing:
        raise ContentError(f"{samples.y_source}: no sample is of class {missing[0]}")
    chosen = np.isin(samples.y, classes)
    return replace(samples, x=samples.x[chosen], y=samples.y[chosen])

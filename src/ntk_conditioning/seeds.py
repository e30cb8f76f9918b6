"""Random generators by seed and role, so that no two uses of a seed share a stream."""

from typing import Literal, get_args

import numpy as np

Role = Literal["data", "blocks", "init", "batch", "augmentation", "lanczos", "probes"]


def generator(seed: int, role: Role, number: int | None = None) -> np.random.Generator:
    """Return the generator of one role of one seed.

    The stream is ``SeedSequence([seed, index of the role])``, so that drawing other data never
    changes an initialisation. NumPy draws on the host: the same seed gives the same network on
    every device. A ``number`` from 1 on, of an epoch say, gives a stream of its own.

    >>> bool(generator(1, "init").random() == generator(1, "blocks").random())
    False
    """
    if number is not None and number < 1:
        raise ValueError(f"number {number} is below 1")  # SeedSequence ignores zeros at the end
    numbers = [] if number is None else [number]
    return np.random.default_rng([seed, get_args(Role).index(role), *numbers])

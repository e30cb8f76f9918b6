"""Random generators by seed and role, so that no two uses of a seed share a stream."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

Role = Literal["data", "blocks", "init", "batch"]
ROLES: tuple[Role, ...] = get_args(Role)


def generator(seed: int, role: Role) -> np.random.Generator:
    """Return the generator of one role of one seed.

    The stream is ``SeedSequence([seed, index of the role])``, so that drawing other data never
    changes an initialisation. NumPy draws on the host: the same seed gives the same network on
    every device.

    Raises:
        ValueError: for a negative seed or an unknown role.

    >>> bool(generator(1, "init").random() == generator(1, "init").random())
    True
    >>> bool(generator(1, "init").random() == generator(1, "blocks").random())
    False
    """
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; the roles are {', '.join(ROLES)}")
    return np.random.default_rng(np.random.SeedSequence([seed, ROLES.index(role)]))

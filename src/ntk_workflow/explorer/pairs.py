"""What networks of infinite width do to two samples at an angle, for the explorer's theory panel.

The numbers are the same in every run.
"""

import numpy as np
import pandas as pd

from ntk_conditioning.kernels.tabulated import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.theory import liu2023relu

#: Angles in degrees, depths, and activations.
ANGLES = np.concatenate([np.arange(1.0, 10), np.arange(10, 181, 2.5)])
DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
ACTIVATIONS = ("relu", "tanh", "gelu", "selu", "sigmoid", "normalized_relu", "normalized_sigmoid")


def pairs() -> pd.DataFrame:
    """Return a row for each activation, depth and angle.

    ``embedding`` and ``gradient`` are the angles after the network in degrees. The cosine k of the
    latter is the kernel's entry over its diagonal: kappa of the two is (1 + |k|) / (1 - |k|).
    """
    levels = {"activation": ACTIVATIONS, "depth": DEPTHS, "angle": ANGLES}
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    w = 2 * np.sin(np.radians(ANGLES) / 2) ** 2
    by_depth = [tables(activations.get(name), DEPTHS) for name in ACTIVATIONS]
    gaps = np.concatenate([table[depth](w) for table in by_depth for depth in DEPTHS])
    gradient = np.degrees(2 * np.arcsin(np.sqrt(np.clip(gaps / 2, 0, 1))))
    found = pd.DataFrame({"gradient": gradient}, index=index).reset_index()
    embeddings = [liu2023relu.embedding_angle(np.radians(ANGLES), depth) for depth in DEPTHS]
    relu = found["activation"] == "relu"
    found.loc[relu, "embedding"] = np.degrees(np.concatenate(embeddings))
    return found

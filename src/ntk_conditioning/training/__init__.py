"""Training of ensembles of networks by stochastic gradient descent."""

from ntk_conditioning.training.ensembles import (
    METRICS,
    Architecture,
    Ensemble,
    Member,
    Part,
    StateError,
)
from ntk_conditioning.training.losses import LossError, make_loss

__all__ = [
    "METRICS",
    "Architecture",
    "Ensemble",
    "LossError",
    "Member",
    "Part",
    "StateError",
    "make_loss",
]

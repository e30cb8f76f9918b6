"""Training of ensembles of networks by stochastic gradient descent."""

from ntk_conditioning.networks.models import make_network
from ntk_conditioning.training.augmentation import Augmentation
from ntk_conditioning.training.losses import LossError, make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.module_ensemble import Descent, ModuleEnsemble
from ntk_conditioning.training.trainer import Member, Part, StateError, Training

#: What is measured of every network, by hand-written passes and by modules.
METRICS = Ensemble.METRICS

__all__ = [
    "METRICS",
    "Architecture",
    "Augmentation",
    "Descent",
    "Ensemble",
    "LossError",
    "Member",
    "ModuleEnsemble",
    "Part",
    "StateError",
    "Training",
    "make_loss",
    "make_network",
]

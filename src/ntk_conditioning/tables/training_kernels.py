"""The table of the kernels with which trainings begin: one row per network and seed."""

from ntk_conditioning.tables import declared
from ntk_conditioning.tables.training import TRAINING

TRAINING_KERNELS = declared(__file__, like=TRAINING)

"""The table of angles between the gradients of a layer's neurons, after liu2022transition."""

from ntk_conditioning.tables import declared

ORTHOGONALITY = declared(__file__)

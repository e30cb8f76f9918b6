"""The table of activations: one row each, as it is and normalised."""

from ntk_conditioning.tables import declared

ACTIVATIONS = declared(__file__)

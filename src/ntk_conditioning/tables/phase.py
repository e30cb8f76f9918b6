"""The table of the map of conditioning: random samples on the sphere, along depth."""

from ntk_conditioning.tables import declared

PHASE = declared(__file__)

"""The table of the map's theory: where laws of random samples expect a spectrum."""

from ntk_conditioning.tables import declared

PHASE_LAWS = declared(__file__)

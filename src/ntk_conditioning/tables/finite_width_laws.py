"""The table of power laws in depth over width."""

from ntk_conditioning.tables import declared

FINITE_WIDTH_LAWS = declared(__file__)

"""The table of kernels on the unit sphere beside the bounds of agarwal2021deep."""

from ntk_conditioning.tables import declared

BOUNDS = declared(__file__)

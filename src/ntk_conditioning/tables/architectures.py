"""The table of kernels at initialisation of networks of other architectures, along depth."""

from ntk_conditioning.tables import declared

ARCHITECTURES = declared(__file__)

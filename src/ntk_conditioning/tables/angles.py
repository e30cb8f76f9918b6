"""The table of smallest angles: one row per search over all pairs of a dataset."""

from ntk_conditioning.tables import declared
from ntk_conditioning.tables.spectra import SPECTRA

ANGLES = declared(__file__, like=SPECTRA)

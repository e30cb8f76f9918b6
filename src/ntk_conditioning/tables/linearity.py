"""The table of Hessians, quadratic terms and changes of the NTK, after liu2022transition."""

from ntk_conditioning.tables import declared
from ntk_conditioning.tables.orthogonality import ORTHOGONALITY

LINEARITY = declared(__file__, like=ORTHOGONALITY)

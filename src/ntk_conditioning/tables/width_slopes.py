"""The table of exponents with which quantities fall with the width."""

from ntk_conditioning.tables import declared

WIDTH_SLOPES = declared(__file__)

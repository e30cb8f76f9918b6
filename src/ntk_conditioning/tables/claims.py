"""The table of claims: one row per published statement, with its verdict and the numbers."""

from ntk_conditioning.tables import declared

CLAIMS = declared(__file__)

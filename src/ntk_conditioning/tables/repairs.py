"""The table of repairs of conditioning."""

from ntk_conditioning.tables import declared

REPAIRS = declared(__file__)

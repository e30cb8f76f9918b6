"""The table of condition numbers over networks of finite width."""

from ntk_conditioning.tables import declared

FINITE_WIDTH = declared(__file__)

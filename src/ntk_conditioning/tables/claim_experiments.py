"""The table of numerical experiments that decide what papers state."""

from ntk_conditioning.tables import declared

CLAIM_EXPERIMENTS = declared(__file__)

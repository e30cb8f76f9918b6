"""The table of drawn speech frames: where in the corpus each row of a speech dataset comes from."""

from ntk_conditioning.tables import declared

FRAMES = declared(__file__)

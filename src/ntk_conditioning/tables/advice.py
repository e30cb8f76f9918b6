"""The table of the advice on a dataset."""

from ntk_conditioning.tables import declared

ADVICE = declared(__file__)

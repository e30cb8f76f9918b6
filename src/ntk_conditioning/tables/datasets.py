"""The table of datasets: one row per dataset, or per draw of its samples."""

from ntk_conditioning.tables import declared

DATASETS = declared(__file__)

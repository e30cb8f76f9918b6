"""Readers of files, see `datasets.READERS`. Libraries that one reader needs are imported there."""

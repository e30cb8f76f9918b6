"""The studies of a run: a module for each, found by its name."""

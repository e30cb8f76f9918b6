"""Rows: all cells of one kernel, dataset and activation."""

"""Figures of a run: parameters of notebooks."""

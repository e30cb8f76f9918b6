"""Datasets: read, checked, drawn from, scaled and described."""

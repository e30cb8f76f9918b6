"""Figures of a run: parameters of notebooks, captions, and checks of PDFs."""

"""Angles between samples and between their gradients, however small."""

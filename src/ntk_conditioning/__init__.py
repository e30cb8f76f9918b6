"""Conditioning of neural tangent kernels: arrays in, arrays out.

Import the modules, not names from this package: ``from ntk_conditioning.kernels import empirical``.
Nothing is imported here, so that a job loads only what it needs.
"""

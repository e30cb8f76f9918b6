"""Eigenvalues and condition numbers of kernels, with error bounds."""

"""Settings of every test: few threads, no display, and deterministic properties."""

from __future__ import annotations

import os

import hypothesis

# Before NumPy and torch are loaded: test workers run side by side.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "agg")

hypothesis.settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=50, database=None
)
hypothesis.settings.load_profile("project")

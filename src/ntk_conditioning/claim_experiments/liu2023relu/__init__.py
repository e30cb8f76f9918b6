"""The experiments of Liu & Hui 2023, "ReLU soothes the NTK condition number"."""

"""The experiments of Liu, Zhu & Belkin 2022, "Transition to linearity of wide neural networks"."""

"""Networks and activations: the NTK parameterisation's, and torch modules by name."""

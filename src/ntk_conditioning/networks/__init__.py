"""Networks and activations: fully connected ones in the NTK parameterisation, torch modules by name."""

"""How orthogonal neurons' gradients and how linear wide networks are, after liu2022transition."""

"""Networks as assemblies of neurons: how orthogonal their gradients are, and how linear they are.

After liu2022transition, "Transition to linearity of wide neural networks is an emerging property of
assembling weak models". `networks` has the networks, `gradients` the angles between the gradients
of a layer's neurons, `taylor` the quadratic term of the expansion in the weights, `descent` their
training by full-batch gradient descent.
"""

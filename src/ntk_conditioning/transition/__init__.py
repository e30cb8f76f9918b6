"""How orthogonal the gradients of neurons are in wide networks, and how linear the networks are.

After liu2022transition, "Transition to linearity of wide neural networks is an emerging property of
assembling weak models". `feedforward` has the networks, `gradients` the angles between the
gradients of a layer's neurons, `taylor` the quadratic term of the expansion in the weights,
`descent` their training by full-batch gradient descent.
"""

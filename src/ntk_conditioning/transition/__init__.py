"""How orthogonal the gradients of neurons are in wide networks, and how linear the networks are.

After liu2022transition, "Transition to linearity of wide neural networks is an emerging property of
assembling weak models".
"""

"""Training of ensembles of networks by stochastic gradient descent."""

"""Expectations of activations under a Gaussian: what a layer of infinite width does."""

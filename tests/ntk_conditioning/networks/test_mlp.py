"""Networks follow the papers' parameterisation, share first layers, and refuse misfits."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, ShapeError, forward, gradient_factors
from tests.ntk_conditioning import gradients

X, network = gradients.inputs(3, 4), partial(gradients.network, 4, width=5)


def test_forward_is_the_formula_written_out():
    """liu2023relu, Eqs. (1), (3): factor gain/sqrt(m) after hidden layers, none elsewhere."""
    w1, w2, w3 = (w.numpy() for w in network().weights)
    for row, output in zip(X.numpy(), forward(network(), X).numpy(), strict=True):
        alpha1 = math.sqrt(2 / 5) * np.maximum(w1 @ row, 0)
        alpha2 = math.sqrt(2 / 5) * np.maximum(w2 @ alpha1, 0)
        assert output == pytest.approx((w3 @ alpha2).item(), abs=0, rel=1e-13)
    linear = network(depth=1, width=7, activation="linear")
    expected = X @ linear.weights[0].T @ linear.weights[1].T / math.sqrt(7)
    torch.testing.assert_close(forward(linear, X), expected.squeeze(1), rtol=1e-13, atol=0)
    mlp = network(depth=0, width=99)  # the linear model
    assert (mlp.depth, mlp.width, mlp.dim, len(mlp.weights)) == (0, 0, 4, 1)
    torch.testing.assert_close(forward(mlp, X), X @ mlp.weights[0][0], rtol=1e-13, atol=0)


def test_one_seed_gives_networks_that_share_their_first_layers():
    shallow, deep, tanh = network(), network(depth=4), network(activation="tanh")
    assert all(map(torch.equal, shallow.weights[:-1], deep.weights))
    assert all(map(torch.equal, shallow.weights, tanh.weights))
    assert not torch.equal(shallow.weights[0], network(seed=2).weights[0])
    single = network(dtype=torch.float32)
    assert (single.dtype, single.device.type) == (torch.float32, "cpu")
    assert all(map(torch.equal, single.weights, shallow.to(torch.float32).weights))


def test_an_activation_that_returns_its_argument_leaves_no_trace():
    """The slope z of z²/2 is z itself; scaling it in place would change the pre-activation."""
    square = activations.Activation("half_square", lambda z: z.square() / 2, lambda z: z)
    mlp = network(depth=1, activation=square)
    z = X @ mlp.weights[0].T
    torch.testing.assert_close(gradient_factors(mlp, X).alphas[1], mlp.scale(1) * z.square() / 2)


def test_weights_and_inputs_that_do_not_fit_are_refused():
    for shapes in ((), ((3, 2), (1, 4)), ((3, 2), (2, 3)), ((2,),)):
        with pytest.raises(ShapeError, match="network of one output"):
            MLP(tuple(map(torch.ones, shapes)), activations.get("relu"))
    with pytest.raises(ShapeError, match=r"torch\.from_numpy"):
        forward(network(), np.ones((2, 4)))
    with pytest.raises(ShapeError, match="float32"):
        forward(network(), torch.ones(2, 4))
    for shape in ((2, 3), (4,)):
        with pytest.raises(ShapeError, match=r"\(n, 4\)"):
            forward(network(), torch.ones(shape).double())

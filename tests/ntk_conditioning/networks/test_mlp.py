"""Networks follow the papers' parameterisation; products of their gradients are exact."""

import math
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial

import numpy as np
import pytest
import torch

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.networks.mlp import MLP, ShapeError, forward, gradient_factors
from tests.ntk_conditioning import gradients

X, network = gradients.inputs(3, 4), partial(gradients.network, 4, width=5)


#: The slope z of z²/2 is z itself; scaling it in place would change the pre-activation.
HALF_SQUARE = activations.Activation("half_square", lambda z: z.square() / 2, lambda z: z)


@pytest.mark.parametrize(
    ("activation", "depth"), [("relu", 2), ("linear", 1), ("relu", 0), (HALF_SQUARE, 1)]
)
def test_forward_is_the_formula_written_out(activation, depth):
    """liu2023relu, Eqs. (1), (3): factor gain/sqrt(m) after hidden layers, none elsewhere."""
    mlp, alpha = network(activation=activation, depth=depth), X
    functions = {"relu": (torch.relu, 2), "linear": (torch.clone, 1)}
    function, squared = functions.get(activation, (lambda z: z.square() / 2, 4 / 3))
    for layer, weight in enumerate(mlp.weights[:-1], start=1):
        alpha = math.sqrt(squared / 5) * function(alpha @ weight.T)
        torch.testing.assert_close(gradient_factors(mlp, X).alphas[layer], alpha)
    torch.testing.assert_close(forward(mlp, X), alpha @ mlp.weights[-1][0], rtol=1e-13, atol=0)
    assert (mlp.depth, mlp.width, mlp.dim) == (depth, 5 if depth else 0, 4)


def test_one_seed_gives_networks_that_share_their_first_layers():
    shallow, deep, tanh = network(), network(depth=4), network(activation="tanh")
    assert all(map(torch.equal, shallow.weights[:-1], deep.weights))
    assert all(map(torch.equal, shallow.weights, tanh.weights))
    assert not torch.equal(shallow.weights[0], network(seed=2).weights[0])
    single = network(dtype=torch.float32)
    assert (single.dtype, single.device.type) == (torch.float32, "cpu")
    assert all(map(torch.equal, single.weights, shallow.to(torch.float32).weights))


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


@pytest.mark.parametrize("allowed", ["medium", "highest"])
def test_precision_is_full_inside_until_the_last_is_done_and_tf32_only_where_all_ask(allowed):
    """As threads that overlap, of which one fails."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with gradients.float32_products(allowed):
        with suppress(LookupError), ExitStack() as last:
            with full_precision(tf32=True):
                assert matmul.allow_tf32
                assert cudnn.allow_tf32
                assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
                last.enter_context(full_precision())
                assert not matmul.allow_tf32
                assert not cudnn.allow_tf32
            assert torch.get_float32_matmul_precision() == "highest"
            raise LookupError
        assert cudnn.allow_tf32  # torch's default


def test_precision_follows_a_caller_of_the_newer_interface():
    """In a process of its own: what torch has seen of either interface cannot be undone."""
    code = """if True:
        import torch
        from ntk_conditioning.networks.gradient_tiles import full_precision
        settings = torch.backends
        backends = settings.cuda.matmul, settings.cudnn.conv, settings.mkldnn.matmul
        for precisions in (["ieee", "tf32", "tf32"], ["tf32", "ieee", "ieee"]):
            for backend, precision in zip(backends, precisions):
                backend.fp32_precision = precision
            for tf32, expected in ((True, ["tf32"] * 2 + ["ieee"]), (False, ["ieee"] * 3)):
                with full_precision(tf32=tf32):
                    assert [backend.fp32_precision for backend in backends] == expected
                assert [backend.fp32_precision for backend in backends] == precisions
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})

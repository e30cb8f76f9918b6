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
from ntk_conditioning.networks.gradient_tiles import Panels, full_precision
from ntk_conditioning.networks.mlp import MLP, ShapeError, forward, gradient_factors
from tests.ntk_conditioning import gradients

X, network = gradients.inputs(3, 4), partial(gradients.network, 4, width=5)


@pytest.mark.parametrize(("activation", "depth"), [("relu", 2), ("linear", 1), ("relu", 0)])
def test_forward_is_the_formula_written_out(activation, depth):
    """liu2023relu, Eqs. (1), (3): factor gain/sqrt(m) after hidden layers, none elsewhere."""
    mlp, alpha = network(activation=activation, depth=depth), X
    for weight in mlp.weights[:-1]:
        z = alpha @ weight.T
        alpha = (math.sqrt(2) * z.clamp(min=0) if activation == "relu" else z) / math.sqrt(5)
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


@pytest.mark.parametrize("number", range(1, 8))
def test_panels_are_paired_once_and_computed_as_seldom_as_two_in_memory_allow(number):
    computed = []
    panels = Panels(3 * number - 1, 3, computed.append)
    pairs = [(panels[i].span.start, panels[j].span.stop) for i, j in panels.pairs()]
    tops = range(0, 3 * number - 1, 3)
    assert sorted(pairs) == [(i, min(j + 3, 3 * number - 1)) for i in tops for j in tops if i <= j]
    # Every pair needs one new panel at most, and a pair of one panel none but the first.
    assert len(computed) <= 1 + math.comb(number, 2)


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

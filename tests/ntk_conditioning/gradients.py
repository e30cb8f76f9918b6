"""Random networks and their gradients, and in what precision they are computed."""

import math
from contextlib import contextmanager

import numpy as np
import torch

from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.feedforward import layers


class OnDevice(torch.Tensor):
    """A tensor for which the code for GPUs is used, here on the processor."""

    device = torch.device("cuda")


def network(d=10, *, depth=2, width=16, activation="relu", seed=1, **options):
    options |= {"activation": activation, "generator": generator(seed, "init")}
    return init_mlp(d, depth=depth, width=width, **options)


def deep_network(name, depth, width, *, activation="relu", image=(8, 8, 3), outputs=10, seed=0):
    """Return a network of torch's modules by its name, in float64."""
    sizes = {"d": math.prod(image), "image": image, "depth": depth, "width": width}
    options = {"activation": activation, "outputs": outputs}
    rng = np.random.default_rng(seed)
    return make_network(name, rng, **sizes, **options, dtype=torch.float64)


def inputs(n, d=10, *, seed=1):
    return torch.from_numpy(generator(seed, "data").standard_normal((n, d)))


def explicit_gradients(model, x, layer):
    """Return the gradients (m_l, p) of a layer's pre-activations at a sample, one by one."""
    weights = [weight.clone().requires_grad_() for weight in model.weights]
    rows = []
    for z in layers(model.with_weights(weights), x[None])[1][layer - 1][0]:
        parts = torch.autograd.grad(z, weights[:layer], retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows)


@contextmanager
def float32_products(precision):
    """Allow a precision of float32 products, as a caller may, and require that it stays."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)

"""Random networks and their gradients, and in what precision they are computed."""

import math
from contextlib import contextmanager

import numpy as np
import torch

from ntk_conditioning.kernels.differentiated_modules import first
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


def deep_network(name, depth, width, *, image=(8, 8, 3), seed=0, **options):
    """Return a network of torch's modules by its name, in float64."""
    sizes = {"d": math.prod(image), "image": image, "depth": depth, "width": width}
    options = {"activation": "relu", "outputs": 10, "dtype": torch.float64} | options
    return make_network(name, np.random.default_rng(seed), **sizes, **options)


def inputs(n, d=10, *, seed=1):
    return torch.from_numpy(generator(seed, "data").standard_normal((n, d)))


def gradient(value, parameters, **options):
    """Return the gradient (p,) of a number by reverse differentiation, 0 where it has none."""
    options = {"retain_graph": True, "materialize_grads": True} | options
    parts = torch.autograd.grad(value, parameters, **options)
    return torch.cat([part.to_dense().flatten() for part in parts])


def jacobian(model, inputs, names=None):
    """Return the gradients (n, c, p) of each output at each sample alone."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    chosen, rows = [parameters[name] for name in names or parameters], []
    for i in range(len(inputs[0])):
        f = first(model, model(*(t[i : i + 1].clone() for t in inputs))).flatten()
        rows.append(torch.stack([gradient(value, chosen) for value in f]))
    return torch.stack(rows)


def explicit_gradients(model, x, layer):
    """Return the gradients (m_l, p) of a layer's pre-activations at a sample, one by one."""
    weights = [weight.clone().requires_grad_() for weight in model.weights]
    z = layers(model.with_weights(weights), x[None])[1][layer - 1][0]
    return torch.stack([gradient(value, weights[:layer]) for value in z])


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

"""NTK by neural-tangents' structured derivatives, compiled: PROBLEM.npz.

The weights are stored (in, out) and used as x @ w: with x @ w.T the structured derivatives
silently become whole Jacobians, a hundred times slower, and AUTO chooses Jacobians as well.
Images are turned from torch's channels-first order into JAX's channels-last.
"""

import sys
from functools import partial

import jax
import numpy as np
from worker import load, serve

with np.load(sys.argv[1]) as file:
    convolutional = "network" in file.files
    data = file["x"]
    if convolutional:
        arrays = {name: file[name] for name in file.files if name[0].isdigit()}
jax.config.update("jax_enable_x64", data.dtype == np.float64)

import neural_tangents as nt  # noqa: E402  after the precision is set


def to_jax(array: np.ndarray) -> jax.Array:
    return jax.numpy.asarray(np.ascontiguousarray(array))


def dense(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for weight, scale in zip(weights[:-1], scales):  # noqa: B905  Python 3.9 knows no strict
        x = scale * jax.nn.relu(x @ weight)
    return x @ weights[-1]


def cnn(parameters: list, x: jax.Array) -> jax.Array:
    for weight, bias in parameters[:-1]:
        x = jax.lax.conv_general_dilated(
            x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + bias)
    weight, bias = parameters[-1]
    return x.reshape(len(x), -1) @ weight + bias


if convolutional:
    layers = sorted({int(name.split(".")[0]) for name in arrays})
    *filters, head = (arrays[f"{layer}.weight"] for layer in layers)
    channels = len(filters[-1])
    side = int((head.size // channels) ** 0.5)
    head = head.reshape(channels, side, side).transpose(1, 2, 0).reshape(-1, 1)
    weights = [*(w.transpose(2, 3, 1, 0) for w in filters), head]
    biases = [arrays[f"{layer}.bias"] for layer in layers]
    parameters = [(to_jax(w), to_jax(b)) for w, b in zip(weights, biases)]  # noqa: B905  as above
    outputs, x = cnn, to_jax(data.transpose(0, 2, 3, 1))
else:
    _, matrices, scales = load(sys.argv[1])
    parameters = [to_jax(w.T) for w in matrices]
    outputs, x = dense, to_jax(data)

compiled = jax.jit(
    nt.empirical_ntk_fn(
        outputs,
        trace_axes=(),
        vmap_axes=0,
        implementation=nt.NtkImplementation.STRUCTURED_DERIVATIVES,
    )
)
kernel = partial(compiled, x, None, parameters)
serve(lambda: kernel().block_until_ready(), ["neural-tangents", "jax", "jaxlib", "numpy"])

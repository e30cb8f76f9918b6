"""NTK of the CNN by neural-tangents' structured derivatives, compiled: PROBLEM.npz.

Images and weights are turned from torch's channels-first order into JAX's channels-last.
"""

import sys
from functools import partial

import jax
import numpy as np
from worker import serve

with np.load(sys.argv[1]) as file:
    if str(file["network"]) != "cnn":
        sys.exit(f"the {file['network']} is not written in JAX")
    images = file["x"]
    arrays = {name: file[name] for name in file.files if name.endswith((".weight", ".bias"))}
jax.config.update("jax_enable_x64", images.dtype == np.float64)

import neural_tangents as nt  # noqa: E402  after the precision is set

layers = sorted({int(name.split(".")[0]) for name in arrays})
*filters, head = (arrays[f"{layer}.weight"] for layer in layers)
channels = filters[-1].shape[0]
side = int((head.size // channels) ** 0.5)
head = head.reshape(channels, side, side).transpose(1, 2, 0).reshape(-1, 1)
weights = [w.transpose(2, 3, 1, 0) for w in filters] + [head]
biases = [arrays[f"{layer}.bias"] for layer in layers]
parameters = [
    (jax.numpy.asarray(np.ascontiguousarray(w)), jax.numpy.asarray(b))
    for w, b in zip(weights, biases)  # noqa: B905  Python 3.9 knows no strict
]
x = jax.numpy.asarray(np.ascontiguousarray(images.transpose(0, 2, 3, 1)))


def outputs(parameters: list, x: jax.Array) -> jax.Array:
    for weight, bias in parameters[:-1]:
        x = jax.lax.conv_general_dilated(
            x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + bias)
    weight, bias = parameters[-1]
    return x.reshape(len(x), -1) @ weight + bias


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

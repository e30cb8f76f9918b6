"""NTK by neural-tangents, compiled: PROBLEM.npz STRUCTURED_DERIVATIVES|NTK_VECTOR_PRODUCTS.

The weights are stored (in, out) and used as x @ w: with x @ w.T the structured derivatives
silently become whole Jacobians, a hundred times slower, and AUTO chooses Jacobians as well.
"""

import sys
from functools import partial

import jax
import numpy as np
from worker import load, serve

data, matrices, scales = load(sys.argv[1])
jax.config.update("jax_enable_x64", data.dtype == np.float64)

import neural_tangents as nt  # noqa: E402  after the precision is set

x = jax.numpy.asarray(data)
weights = [jax.numpy.asarray(np.ascontiguousarray(w.T)) for w in matrices]


def outputs(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for weight, scale in zip(weights[:-1], scales):  # noqa: B905  Python 3.9 knows no strict
        x = scale * jax.nn.relu(x @ weight)
    return x @ weights[-1]


compiled = jax.jit(
    nt.empirical_ntk_fn(
        outputs, trace_axes=(), vmap_axes=0, implementation=nt.NtkImplementation[sys.argv[2]]
    )
)
kernel = partial(compiled, x, None, weights)
serve(lambda: kernel().block_until_ready(), ["neural-tangents", "jax", "jaxlib", "numpy"])

"""NTKs of random networks of finite width, drawn without drawing their weights.

A weight matrix W (m, m) with standard normal entries meets n samples twice: forward as W A with the
embeddings A (m, n) of the layer below, and backward as Wᵀ D with the gradients D of the layer
above. With A = Q R and D = P S, both of orthonormal columns, W Q = Y is a standard normal matrix of
n columns, and so is what remains of Wᵀ P beside Q, so that (Bolthausen 2014, "An iterative
construction of solutions of the TAP equations", by conditioning)

    W A = Y R,   Wᵀ D = Q Yᵀ D + (I - Q Qᵀ) G S,   G standard normal (m, n).

The kernels have exactly the distribution of those of `networks.mlp.init_mlp`, for m n² operations
in a layer where the network itself takes m² n, and no matrix of m² entries.
"""

from typing import Any

import numpy as np

from ntk_conditioning.networks.activations import Activation, Array

#: Bytes that the layers of networks drawn together may take.
MEMORY = 2**28


def sampled_ntks(
    x: Array,
    *,
    depth: int,
    width: int,
    activation: Activation,
    networks: int,
    generator: np.random.Generator,
) -> Array:
    """Return the NTKs (networks, n, n) of ``x`` (n, d), in float64, of that many random networks.

    ``depth`` counts hidden layers, all of one ``width``; networks have one output, and weights as
    `networks.mlp.init_mlp` draws them. ``generator`` is a NumPy generator.

    >>> from ntk_conditioning.networks import activations
    >>> size = {"depth": 3, "width": 4096, "networks": 2, "activation": activations.get("relu")}
    >>> ks = sampled_ntks(np.eye(2), **size, generator=np.random.default_rng(0))
    >>> bool((abs(ks[:, 0, 0] / 4 - 1) < 0.2).all())  # L + 1 at infinite width
    True
    """
    n = len(x)
    if depth == 0:
        return np.tile(x @ x.T, (networks, 1, 1))
    together = max(1, MEMORY // (3 * 8 * width * n * depth))
    if networks > together:
        size: Any = {"depth": depth, "width": width, "activation": activation}
        numbers = [min(together, networks - done) for done in range(0, networks, together)]
        return np.concatenate(
            [sampled_ntks(x, **size, networks=some, generator=generator) for some in numbers]
        )
    factor = np.asarray(np.linalg.qr(x.T, mode="r"))  # WX needs no more of X
    scale = activation.gain / np.sqrt(width)
    grams = [np.broadcast_to(factor.T @ factor, (networks, n, n))]
    layers: list[tuple[Array, Array, Array]] = []
    z = generator.standard_normal((networks, width, len(factor))) @ factor
    for layer in range(1, depth + 1):
        embedding, slopes = scale * activation.values(z), scale * activation.slopes(z)
        grams.append(embedding.mT @ embedding)
        if layer < depth:
            q, r = np.linalg.qr(embedding)
            y = generator.standard_normal((networks, width, q.shape[2]))
            layers.append((slopes, q, y))
            z = y @ r
    gradients = slopes * generator.standard_normal((networks, width, 1))
    kernel = grams[depth] + grams[depth - 1] * (gradients.mT @ gradients)
    for (slopes, q, y), gram in zip(reversed(layers), reversed(grams[:-2]), strict=True):
        p, s = np.linalg.qr(gradients)
        beside = generator.standard_normal((networks, width, p.shape[2])) @ s
        beside -= q @ (q.mT @ beside)
        gradients = slopes * (q @ (y.mT @ gradients) + beside)
        kernel += gram * (gradients.mT @ gradients)
    return np.asarray(kernel)

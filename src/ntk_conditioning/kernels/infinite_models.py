"""Kernels of infinite width of networks by name: the limits of those in `networks.modules`."""

import math
from typing import Any

from ntk_conditioning.kernels import infinite, infinite_convolutional, infinite_residual
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.networks.modules import BIAS_SCALE

#: Networks that have a closed recursion.
INFINITE_MODELS = ("mlp", "mlp_bias", "residual_mlp", "residual_mlp_scaled", "conv", "conv_pool")


def ntk(
    model: str,
    x: Array,
    *,
    image: tuple[int, int, int] | None,
    depth: int,
    activation: Activation | str,
) -> Array:
    """Return the NTK (n, n) of infinite width of samples ``x`` (n, d).

    ``image`` is the height, width and colours of a sample, for the convolutional ones.
    """
    size: Any = {"depth": depth, "activation": activation}
    match model:
        case "mlp":
            return infinite.ntk(x, **size)
        case "mlp_bias":
            return infinite_residual.ntk(x, **size, bias_scale=BIAS_SCALE)
        case "residual_mlp":
            return infinite_residual.ntk(x, **size, branch_scale=1.0)
        case "residual_mlp_scaled":
            return infinite_residual.ntk(x, **size, branch_scale=1 / math.sqrt(depth))
        case "conv" | "conv_pool" if image is not None:
            images = x.reshape(len(x), *image).transpose(0, 3, 1, 2)
            pooling = "average" if model == "conv_pool" else "none"
            return infinite_convolutional.ntk(images, **size, pooling=pooling)
    raise ValueError(f"{model} has no closed recursion of infinite width")

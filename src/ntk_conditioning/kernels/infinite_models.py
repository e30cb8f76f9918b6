"""Kernels of infinite width of networks by name: the limits of those in `networks.modules`."""

from collections.abc import Sequence
from typing import Any

from ntk_conditioning.kernels import infinite, infinite_convolutional
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.networks.modules import BIAS_SCALE


def ntks(
    model: str,
    x: Array,
    *,
    image: tuple[int, int, int] | None,
    depths: Sequence[int],
    activation: Activation | str,
) -> dict[int, Array]:
    """Return the NTKs (n, n) of infinite width of samples ``x`` (n, d), in float64, by depth.

    ``model`` is a name in `architectures.MODELS`; ``image`` height, width and colours of a sample.

    Raises `KeyError` if there is no recursion for the model, and the errors of `infinite.ntk`.
    """
    if model in ("conv", "conv_pool") and image is not None:
        images = x.reshape(len(x), *image).transpose(0, 3, 1, 2)
        pooling: Any = "average" if model == "conv_pool" else "none"
        options: Any = {"depths": depths, "activation": activation}
        all_depths = infinite_convolutional.kernels(images, pooling=pooling, **options)
        return {kernels.depth: kernels.ntk for kernels in all_depths}
    kernels = {}
    for depth in depths:
        scales: dict[str, dict[str, float]] = {
            "mlp": {},
            "mlp_bias": {"bias_scale": BIAS_SCALE},
            "residual_mlp": {"branch_scale": 1.0},
            "residual_mlp_scaled": {"branch_scale": max(depth, 1) ** -0.5},
        }
        kernels[depth] = infinite.ntk(x, depth=depth, activation=activation, **scales[model])
    return kernels

"""Batch and layer normalisation beside a normalised activation: Lemmas 1 and 17."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, gaussian_mean, gaussian_nodes
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.seeds import generator

N, D = 64, 8
ACTIVATIONS = ("relu", "gelu", "sigmoid")
PLACES = ("batch", "batch_and_output", "layer_after", "layer_before")
TORCH_EPS = 1e-5
"""What torch's normalisations add to a variance by default; the paper's add nothing."""


def same_output(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 1: the difference of two networks' outputs, relative to the outputs.

    The networks share weights, and gains and shifts of their normalisations; one has σ, the other
    (σ - c)/s. ``at`` is what is added to variances. Normalisation stands before the activation of
    every hidden layer, ``batch``, and at the output too, ``batch_and_output``; or after the
    activation, ``layer_after``; or, against the lemma's restriction, before, ``layer_before``.
    """
    width = min(setting.widths)
    for seed in setting.seeds:
        x = torch.from_numpy(generator(seed, "data").standard_normal((N, D)))
        for depth in setting.depths:
            init = generator(seed, "init")
            weights = list(draw_weights(D, depth=depth, width=width, outputs=1, generator=init))
            affine = [torch.from_numpy(init.uniform(0.5, 1.5, (2, width))) for _ in weights]
            for name in ACTIVATIONS:
                pair = activations.get(name), activations.get(f"normalized_{name}")
                for place in PLACES:
                    for eps in (0.0, TORCH_EPS):
                        one, other = (
                            _output(x, weights, affine, each, place=place, eps=eps) for each in pair
                        )
                        yield Measurement(
                            f"same_output_{place}",
                            float((one - other).norm() / one.norm()),
                            activation=name,
                            depth=depth,
                            width=width,
                            n=N,
                            d=D,
                            seed=seed,
                            at=eps,
                        )


def _output(
    x: Tensor,
    weights: Sequence[Tensor],
    affine: Sequence[Tensor],
    activation: Activation,
    *,
    place: str,
    eps: float,
) -> Tensor:
    """Return the outputs (n, 1) of a network with normalisation in a place."""
    alpha = x
    for weight, (gain, shift) in zip(weights[:-1], affine, strict=False):
        z, root = alpha @ weight.T, math.sqrt(len(weight))
        if place.startswith("batch"):
            z = _standard(z, dim=0, eps=eps) * gain + shift
        elif place == "layer_before":
            z = _standard(z, dim=1, eps=eps) * gain + shift
        alpha = activation.function(z) / root
        if place == "layer_after":  # gains of size 1/√m keep the next pre-activations of size 1
            alpha = (_standard(alpha, dim=1, eps=eps) * gain + shift) / root
    out = alpha @ weights[-1].T
    return _standard(out, dim=0, eps=eps) if place == "batch_and_output" else out


def _standard(v: Tensor, *, dim: int, eps: float) -> Tensor:
    """Return BN(v) along the batch or LN(v) along the units, by torch's own normalisation."""
    # a batch normalisation over samples is a layer normalisation of the transposed
    rows = v.T if dim == 0 else v
    normed = nn.functional.layer_norm(rows, rows.shape[1:], eps=eps)
    return normed.T if dim == 0 else normed


def proof(setting: Setting) -> Iterator[Measurement]:
    """Measure the means and deviations that the proof of Lemma 17 compares.

    A mean of the normalised activation's: ``printed`` is (μ - c)/s; what follows is
    (μ - c Σ_k w_k / √m)/s in a batch, and (μ - c/√m)/s over units. ``batch_deviation`` is ν̃ about
    its own mean; ``printed`` takes it about μ.
    """
    width = min(setting.widths)
    for seed in setting.seeds:
        x = generator(seed, "data").standard_normal((width, N))
        w = generator(seed, "init").standard_normal(width)
        for name in ACTIVATIONS:
            sigma, tilde = activations.get(name), activations.get(f"normalized_{name}")
            at_nodes = sigma.values(gaussian_nodes())
            c = float(gaussian_mean(at_nodes))
            s = math.sqrt(gaussian_mean((at_nodes - c) ** 2))
            v, other = (w @ each.values(x) / math.sqrt(width) for each in (sigma, tilde))
            common: dict[str, Any] = {"activation": name, "width": width, "n": N, "seed": seed}
            mean = float(v.mean())
            yield Measurement(
                "batch_mean",
                float(other.mean()),
                printed=(mean - c) / s,
                corrected=(mean - c * float(w.sum()) / math.sqrt(width)) / s,
                **common,
            )
            yield Measurement(
                "batch_deviation",
                float(other.std()),
                printed=math.sqrt(np.mean((other - mean) ** 2)),
                corrected=float(v.std()) / s,
                **common,
            )
            one, normed = (each.values(x[:, 0]) / math.sqrt(width) for each in (sigma, tilde))
            yield Measurement(
                "layer_mean",
                float(normed.mean()),
                printed=(float(one.mean()) - c) / s,
                corrected=(float(one.mean()) - c / math.sqrt(width)) / s,
                **common,
            )

"""Batch and layer normalisation beside a normalised activation: Lemmas 1 and 17."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import gaussian_mean, gaussian_nodes
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.seeds import generator

N, D = 64, 8
ACTIVATIONS = ("relu", "gelu", "sigmoid")
PLACES = ("batch", "batch_and_output", "layer_after", "layer_before")
#: What torch's normalisations add to a variance by default; the paper's add nothing.
TORCH_EPS = 1e-5


def same_output(setting: Setting) -> Measurements:
    """Measure Lemma 1: the difference of two networks' outputs, relative to the outputs.

    The networks share weights, and gains and shifts of their normalisations; one has σ, the other
    (σ - c)/s. ``at`` is what is added to variances. Normalisation stands before the activation of
    every hidden layer, ``batch``, and at the output too, ``batch_and_output``; or after the
    activation, ``layer_after``; or, against the lemma's restriction, before, ``layer_before``.
    """
    width = min(setting.widths)
    for seed, depth in itertools.product(setting.seeds, setting.depths):
        x = torch.from_numpy(generator(seed, "data").standard_normal((N, D)))
        init = generator(seed, "init")
        weights = list(draw_weights(D, depth=depth, width=width, outputs=1, generator=init))
        affine = [torch.from_numpy(init.uniform(0.5, 1.5, (2, width))) for _ in weights]
        row = partial(Measurement, depth=depth, width=width, n=N, d=D, seed=seed)
        for name, place, eps in itertools.product(ACTIVATIONS, PLACES, (0.0, TORCH_EPS)):
            one, other = (
                _output(x, weights, affine, each, place, eps)
                for each in (name, f"normalized_{name}")
            )
            difference = (one - other).norm() / one.norm()
            yield row(f"same_output_{place}", difference, activation=name, at=eps)


def _output(
    x: Tensor, weights: list[Tensor], affine: list[Tensor], name: str, place: str, eps: float
) -> Tensor:
    """Return the outputs (n, 1) of a network with normalisation in a place."""
    alpha, activation = x, activations.get(name)
    for weight, (gain, shift) in zip(weights[:-1], affine, strict=False):
        z, root = alpha @ weight.T, math.sqrt(len(weight))
        if place != "layer_after":
            z = _standard(z, place, eps) * gain + shift
        alpha = activation.function(z) / root
        if place == "layer_after":  # gains of size 1/√m keep the next pre-activations of size 1
            alpha = (_standard(alpha, place, eps) * gain + shift) / root
    out = alpha @ weights[-1].T
    return _standard(out, place, eps) if place == "batch_and_output" else out


def _standard(v: Tensor, place: str, eps: float) -> Tensor:
    """Return BN(v) along the batch or LN(v) along the units, by torch's own normalisation."""
    if place.startswith("batch"):  # a layer normalisation of the transposed
        return nn.functional.layer_norm(v.T, v.T.shape[1:], eps=eps).T
    return nn.functional.layer_norm(v, v.shape[1:], eps=eps)


def proof(setting: Setting) -> Measurements:
    """Measure the means and deviations that the proof of Lemma 17 compares.

    A mean of the normalised activation's: ``printed`` is (μ - c)/s; what follows is
    (μ - c Σ_k w_k / √m)/s in a batch, and (μ - c/√m)/s over units. ``batch_deviation`` is ν̃ about
    its own mean; ``printed`` takes it about μ.
    """
    width = min(setting.widths)
    root = math.sqrt(width)
    for seed, name in itertools.product(setting.seeds, ACTIVATIONS):
        x = generator(seed, "data").standard_normal((width, N))
        w = generator(seed, "init").standard_normal(width)
        sigma, tilde = activations.get(name), activations.get(f"normalized_{name}")
        at_nodes = sigma.values(gaussian_nodes())
        c = float(gaussian_mean(at_nodes))
        s = math.sqrt(gaussian_mean((at_nodes - c) ** 2))
        row = partial(Measurement, activation=name, width=width, n=N, seed=seed)
        v, other = (w @ each.values(x) / root for each in (sigma, tilde))
        mean, deviation = float(v.mean()), math.sqrt(np.mean((other - v.mean()) ** 2))
        right = (mean - c * float(w.sum()) / root) / s
        yield row("batch_mean", other.mean(), (mean - c) / s, right)
        yield row("batch_deviation", other.std(), deviation, v.std() / s)
        one, normed = (each.values(x[:, 0]) / root for each in (sigma, tilde))
        mean = float(one.mean())
        yield row("layer_mean", normed.mean(), (mean - c) / s, (mean - c / root) / s)


EXPERIMENTS = (same_output, proof)

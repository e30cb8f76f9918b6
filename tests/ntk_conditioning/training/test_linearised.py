"""Predictions against gradient descent of explicit Jacobians, and against wide networks."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.networks.modules import MlpModule, make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.linearised import Expansion
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.training.ensembles import jacobian, split
from tests.support.trainings import finish

N, D, C = 14, 5, 3
VECTORS, IMAGES = split(0, N, D), split(0, N, 2, 4, 4)
SQUARE, CROSS_ENTROPY = (
    make_loss(name, outputs="classes", classes=C, dtype=torch.float64)
    for name in ("square", "cross_entropy")
)


def mlp(rng, *, depth, width=7, activation="tanh"):
    weights = draw_weights(D, depth=depth, width=width, outputs=C, generator=rng)
    return MlpModule([*weights], activations.get(activation))


def resnet(rng):
    """Return a residual network of convolutions whose scalars learn more slowly than the rest."""
    size = {"d": 2 * 16, "image": (4, 4, 2), "depth": 4, "width": 2, "outputs": C}
    of = {"activation": activations.get("tanh"), "dtype": torch.float64}
    network = make_network("resnet_fixup", rng, **size, **of)
    for parameter in network.parameters():  # of which some begin at zero
        parameter.data += 0.1 * torch.from_numpy(rng.standard_normal(parameter.shape))
    return network


def expansions(make, loss, members, data, descent):
    train = {member.seed: data for member in members}
    return ModuleEnsemble(lambda rng: Expansion(make(rng)), loss, members, train, descent=descent)


def expanded(network, x):
    """Return the outputs (n c,), their Jacobian (n c, p) and the factors of rates (p,)."""
    _, j, factors = jacobian(network, x)
    return network(x)[0].detach().flatten(), j.flatten(0, 1), factors


def explicit_curve(network, data, loss, descent, *, seed, rate):
    """Return the losses of the descent of the network's Jacobian at its weights."""
    (f, j, pace), y = expanded(network, data.x), data.y
    start = torch.cat([p.detach().flatten() for p in network.parameters()])
    change = velocity = torch.zeros(j.shape[1], dtype=torch.float64)
    curve = [loss.values(f.reshape(N, C), y).mean().item()]
    for epoch in range(1, descent.epochs + 1):
        order = torch.from_numpy(generator(seed, "batch", epoch).permutation(N))
        for rows in order.split(N if descent.batch_size == "all" else descent.batch_size):
            pull = torch.zeros(N, C, dtype=torch.float64)
            out = (f + j @ change).reshape(N, C)[rows]
            pull[rows] = loss.gradient(out, y[rows]) / len(rows)
            gradient = j.T @ pull.reshape(-1) + descent.weight_decay * (start + change)
            velocity = descent.momentum * velocity + gradient
            change = change - rate * pace * velocity
        curve.append(loss.values((f + j @ change).reshape(N, C), y).mean().item())
    return curve


@pytest.mark.parametrize("make", [*(partial(mlp, depth=depth) for depth in (0, 1, 3)), resnet])
@pytest.mark.parametrize(
    ("loss", "descent"),
    [
        (SQUARE, Descent(epochs=10)),
        (SQUARE, Descent(epochs=10, momentum=0.9)),
        (CROSS_ENTROPY, Descent(epochs=10, batch_size=4, momentum=0.9, weight_decay=0.01)),
    ],
)
def test_an_expansion_descends_as_its_explicit_jacobian_does(make, loss, descent):
    data = IMAGES if make is resnet else VECTORS
    members = [NetworkSpec(seed, rate) for seed in (1, 2) for rate in (0.05, 0.1)]
    curves = finish(expansions(make, loss, members, data, descent)).metrics["train_loss"].T
    for curve, (seed, rate) in zip(curves, members, strict=True):
        network = make(generator(seed, "init"))
        expected = explicit_curve(network, data, loss, descent, seed=seed, rate=rate)
        np.testing.assert_allclose(curve, expected, rtol=1e-10)
    assert (curves[:, -1] / curves[:, 0]).min() < 0.95
    _, j, pace = expanded(network, data.x)
    assert len(pace.unique()) == (2 if make is resnet else 1)
    kernel = module_kernel(network, data.x, "full")
    np.testing.assert_allclose(kernel, (j * pace) @ j.T, rtol=1e-10, atol=1e-12)


def test_the_closed_form_is_gradient_descent_on_the_square_loss():
    make = partial(mlp, depth=2, width=6, activation="relu")
    f, j, _ = expanded(make(generator(1, "init")), VECTORS.x)
    values, vectors = np.linalg.eigh((j @ j.T).numpy())
    residual = (SQUARE.codes[VECTORS.y].reshape(-1) - f).numpy()
    squares, rate = np.square(vectors.T @ residual), N / values[-1]
    members, descent = [NetworkSpec(1, rate)], Descent(epochs=200)
    ensemble = finish(expansions(make, SQUARE, members, VECTORS, descent))
    curve = ensemble.metrics["train_loss"][:, 0]
    predicted = predicted_losses(values, squares, rate=rate, n=N, steps=np.arange(201))
    np.testing.assert_allclose(curve, predicted, rtol=1e-10)
    share = curve[150] / curve[0]
    assert predicted_steps(values, squares, rate=rate, n=N, share=share) == pytest.approx(150)
    options = {"rate": 1.9 * rate, "n": N}  # of steps that overshoot, and yet converge
    steps = predicted_steps(values, squares, share=share, **options)
    assert predicted_losses(values, squares, steps=steps, **options) == pytest.approx(curve[150])
    assert predicted_steps(values, squares, rate=3 * rate, n=N, share=share) == np.inf


def test_a_network_follows_its_prediction_the_closer_the_wider_it_is():
    """Lee et al. (2019), Theorem 2.1: the distance falls at least like 1/sqrt(m)."""
    widths = [16, 64, 256]
    members, descent = [NetworkSpec(seed, 0.3) for seed in range(4)], Descent(epochs=30)
    off = []
    for width in widths:
        network, train = (
            Architecture(2, width, activations.get("tanh")),
            dict.fromkeys(range(4), VECTORS),
        )
        real = Ensemble(network, SQUARE, members, train, descent=descent)
        make = partial(mlp, depth=2, width=width)
        both = real, expansions(make, SQUARE, members, VECTORS, descent)
        a, b = (finish(ensemble).metrics["train_loss"] for ensemble in both)
        off.append((np.abs(b - a).max(axis=0) / a[0]).mean())
    assert all(wide < narrow for narrow, wide in pairwise(off))
    assert np.polyfit(np.log(widths), np.log(off), 1)[0] < -0.4

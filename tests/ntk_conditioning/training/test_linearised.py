"""Predictions against gradient descent of explicit Jacobians, and against wide networks."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.networks.modules import MlpModule, make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.linearised import Expansion
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import LOSSES, Mlp, ensemble, jacobian, split
from tests.support.trainings import finish

N, D, C = 14, 5, 3
CROSS_ENTROPY, SQUARE, _ = LOSSES
VECTORS, IMAGES = split(0, N, D), split(0, N, 2, 4, 4)


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


def curves(make, members, **options):
    """Return the training losses of networks, each a column."""
    return finish(ensemble(make, members, **options)).metrics["train_loss"]


def expanded_curves(make, members, **options):
    return curves(lambda rng: Expansion(make(rng)), members, **options)


def expanded(network, x):
    """Return the outputs (n c,), their Jacobian (n c, p) and the factors of rates (p,)."""
    _, j, factors = jacobian(network, x)
    return network(x)[0].detach().flatten(), j.flatten(0, 1), factors


def explicit_curve(
    network, member, *, data, loss, epochs=10, batch_size=N, momentum=0.0, weight_decay=0.0
):
    """Return the losses of the descent of the network's Jacobian at its weights."""
    (f, j, pace), start = expanded(network, data.x), parameters_to_vector(network.parameters())
    change, velocity, losses = torch.zeros_like(start), torch.zeros_like(start), []
    for epoch in range(1, epochs + 2):  # the last is only begun
        losses.append(plain_losses(loss, (f + j @ change).reshape(N, C), data.y).mean().item())
        order = torch.from_numpy(generator(member.seed, "batch", epoch).permutation(N))
        for rows in order.split(batch_size):
            out = (f + j @ change).reshape(N, C).requires_grad_()
            (pull,) = torch.autograd.grad(plain_losses(loss, out[rows], data.y[rows]).mean(), out)
            gradient = j.T @ pull.flatten() + weight_decay * (start.detach() + change)
            velocity = momentum * velocity + gradient
            change = change - member.rate * pace * velocity
    return losses


@pytest.mark.parametrize("make", [*(partial(mlp, depth=depth) for depth in (0, 1, 3)), resnet])
@pytest.mark.parametrize(
    "options",
    [
        {"loss": SQUARE},
        {"loss": SQUARE, "momentum": 0.9},
        {"loss": CROSS_ENTROPY, "batch_size": 4, "momentum": 0.9, "weight_decay": 0.01},
    ],
)
def test_an_expansion_descends_as_its_explicit_jacobian_does(make, options):
    options = options | {"epochs": 10, "data": IMAGES if make is resnet else VECTORS}
    members = [NetworkSpec(seed, rate) for seed in (1, 2) for rate in (0.05, 0.1)]
    found = expanded_curves(make, members, **options)
    for curve, member in zip(found.T, members, strict=True):
        network = make(generator(member.seed, "init"))
        np.testing.assert_allclose(curve, explicit_curve(network, member, **options), rtol=1e-10)
    assert (found[-1] / found[0]).min() < 0.95
    _, j, pace = expanded(network, options["data"].x)
    assert len(pace.unique()) == (2 if make is resnet else 1)
    kernel = module_kernel(network, options["data"].x, "full")
    np.testing.assert_allclose(kernel, (j * pace) @ j.T, rtol=1e-10, atol=1e-12)


def test_the_closed_form_is_gradient_descent_on_the_square_loss():
    make = partial(mlp, depth=2, width=6, activation="relu")
    f, j, _ = expanded(make(generator(1, "init")), VECTORS.x)
    values, vectors = np.linalg.eigh((j @ j.T).numpy())
    squares = np.square(vectors.T @ (np.eye(C)[VECTORS.y].ravel() - f.numpy()))
    rate, options = N / values[-1], {"epochs": 200, "data": VECTORS, "loss": SQUARE}
    curve = expanded_curves(make, [NetworkSpec(1, rate)], **options)[:, 0]
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
    widths, off = [16, 64, 256], []
    members = [NetworkSpec(seed, 0.3) for seed in range(4)]
    options = {"data": VECTORS, "loss": SQUARE, "epochs": 30}
    for width in widths:
        real = curves(Mlp(2, width, activations.get("tanh")), members, **options)
        predicted = expanded_curves(partial(mlp, depth=2, width=width), members, **options)
        off.append((np.abs(predicted - real).max(axis=0) / real[0]).mean())
    assert all(wide < narrow for narrow, wide in pairwise(off))
    assert np.polyfit(np.log(widths), np.log(off), 1)[0] < -0.4

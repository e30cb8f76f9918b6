"""Predictions against gradient descent of explicit Jacobians, and against wide networks."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import Network, make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.linearised import Expansion, Linearised
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.tangents import Architecture, tangent
from ntk_conditioning.training.trainer import NetworkSpec, Split
from tests.ntk_conditioning.training.ensembles import jacobian
from tests.support.trainings import finish

N, D, C = 14, 5, 3


class Plain(Network):
    """A network as in liu2023relu, Eq. (1), with c outputs, for automatic differentiation."""

    def __init__(self, activation, weights):
        super().__init__([], torch.nn.Identity())
        self.activation, self.weights = activation, torch.nn.ParameterList(weights)

    def forward(self, x):
        *hidden, last = self.weights
        for weight in hidden:
            x = self.activation.function(x @ weight.T) * self.activation.gain / len(weight) ** 0.5
        return x @ last.T, None


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((N, D)))
    return Split(x, torch.from_numpy(rng.integers(0, C, N)))


def expanded(network, x):
    """Return the outputs (n c,), their Jacobian (n c, p) and the factors of rates (p,)."""
    _, j, factors = jacobian(network, x)
    return network(x)[0].detach().flatten(), j.flatten(0, 1), factors


def explicit_curve(f, j, y, loss, descent, *, seed, rate, start=0.0, pace=1.0):
    """Return the losses of the descent of a Jacobian, from the weights ``start`` (p,)."""
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


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize(
    ("name", "batch", "momentum"),
    [("square", "all", 0.0), ("square", "all", 0.9), ("cross_entropy", 4, 0.0)],
)
def test_an_expansion_descends_as_its_explicit_jacobian_does(problem, name, batch, momentum, depth):
    network = Architecture(depth, 7, activations.get("tanh"))
    loss = make_loss(name, outputs="classes", classes=C, dtype=torch.float64)
    descent = Descent(epochs=20, batch_size=batch, momentum=momentum)
    members = [NetworkSpec(seed, rate) for seed in (1, 2) for rate in (0.05, 0.2)]
    ensemble = finish(
        Linearised(network, loss, members, dict.fromkeys((1, 2), problem), descent=descent)
    )
    for number, (seed, rate) in enumerate(members):
        weights = network.draw(D, C, seed=seed, like=problem.x)
        f, j, _ = expanded(Plain(network.activation, weights), problem.x)
        curve = explicit_curve(f, j, problem.y, loss, descent, seed=seed, rate=rate)
        np.testing.assert_allclose(ensemble.metrics["train_loss"][:, number], curve, rtol=1e-10)


def perturbed(rng):
    """Return a residual network of convolutions whose scalars learn more slowly than the rest."""
    size = {"d": 2 * 16, "image": (4, 4, 2), "depth": 4, "width": 2, "outputs": C}
    of = {"activation": activations.get("tanh"), "dtype": torch.float64}
    network = make_network("resnet_fixup", rng, **size, **of)
    for parameter in network.parameters():  # of which some begin at zero
        parameter.data += 0.1 * torch.from_numpy(rng.standard_normal(parameter.shape))
    return network


def test_expansions_of_modules_descend_as_their_explicit_jacobian_does(problem):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((N, 2, 4, 4)))
    loss = make_loss("cross_entropy", outputs="classes", classes=C, dtype=torch.float64)
    descent = Descent(epochs=5, batch_size=4, momentum=0.9, weight_decay=0.01)
    data, members = {1: Split(x, problem.y)}, [NetworkSpec(1, 0.05)]
    ensemble = ModuleEnsemble(
        lambda rng: Expansion(perturbed(rng)), loss, members, data, descent=descent
    )
    finish(ensemble)
    network = perturbed(generator(1, "init"))
    f, j, pace = expanded(network, x)
    start = torch.cat([p.detach().flatten() for p in network.parameters()])
    assert len(pace.unique()) == 2
    kernel = module_kernel(network, x, "full")
    np.testing.assert_allclose(kernel, (j * pace) @ j.T, rtol=1e-10, atol=1e-12)
    options = {"seed": 1, "rate": 0.05, "start": start, "pace": pace}
    curve = explicit_curve(f, j, problem.y, loss, descent, **options)
    np.testing.assert_allclose(ensemble.metrics["train_loss"][:, 0], curve, rtol=1e-10)
    assert curve[-1] < 0.95 * curve[0]


def test_the_closed_form_is_gradient_descent_on_the_square_loss(problem):
    network = Architecture(2, 6, activations.get("relu"))
    loss = make_loss("square", outputs="classes", classes=C, dtype=torch.float64)
    weights = network.draw(D, C, seed=1, like=problem.x)
    whole = tangent(weights, network.activation, problem.x)
    f, j, _ = expanded(Plain(network.activation, weights), problem.x)
    np.testing.assert_allclose(whole.kernel(), j @ j.T, rtol=0, atol=1e-12)
    values, vectors = np.linalg.eigh(whole.kernel().numpy())
    residual = (loss.codes[problem.y].reshape(-1) - f).numpy()
    squares, rate = np.square(vectors.T @ residual), N / values[-1]
    members, descent = [NetworkSpec(1, rate)], Descent(epochs=200)
    ensemble = finish(Linearised(network, loss, members, {1: problem}, descent=descent))
    curve = ensemble.metrics["train_loss"][:, 0]
    predicted = predicted_losses(values, squares, rate=rate, n=N, steps=np.arange(201))
    np.testing.assert_allclose(curve, predicted, rtol=1e-10)
    share = curve[150] / curve[0]
    assert predicted_steps(values, squares, rate=rate, n=N, share=share) == pytest.approx(150)
    options = {"rate": 1.9 * rate, "n": N}  # of steps that overshoot, and yet converge
    steps = predicted_steps(values, squares, share=share, **options)
    assert predicted_losses(values, squares, steps=steps, **options) == pytest.approx(curve[150])
    assert predicted_steps(values, squares, rate=3 * rate, n=N, share=share) == np.inf


def test_a_network_follows_its_prediction_the_closer_the_wider_it_is(problem):
    """Lee et al. (2019), Theorem 2.1: the distance falls at least like 1/sqrt(m)."""
    widths = [16, 64, 256]
    loss = make_loss("square", outputs="classes", classes=C, dtype=torch.float64)
    members = [NetworkSpec(seed, 0.3) for seed in range(4)]
    parts = dict.fromkeys(range(4), problem)
    off = []
    for width in widths:
        network, descent = Architecture(2, width, activations.get("tanh")), Descent(epochs=30)
        real = Ensemble(network, loss, members, parts, descent=descent)
        expanded = Linearised(network, loss, members, parts, descent=descent)
        a, b = (finish(ensemble).metrics["train_loss"] for ensemble in (real, expanded))
        off.append((np.abs(b - a).max(axis=0) / a[0]).mean())
    assert all(wide < narrow for narrow, wide in pairwise(off))
    assert np.polyfit(np.log(widths), np.log(off), 1)[0] < -0.4

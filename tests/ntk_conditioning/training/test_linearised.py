"""Predictions against gradient descent of explicit Jacobians, and against wide networks."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Course, Descent
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.linearised import Linearised
from ntk_conditioning.training.linearised_modules import expansions
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.tangents import Architecture, tangent
from ntk_conditioning.training.trainer import Member, Part
from tests.support.trainings import finish

N, D, C = 14, 5, 3


class Plain(torch.nn.Module):
    """A network as in liu2023relu, Eq. (1), with c outputs, for automatic differentiation."""

    def __init__(self, network, weights):
        super().__init__()
        self.network = network
        self.weights = torch.nn.ParameterList([w.clone() for w in weights])

    def forward(self, x):
        *hidden, last = self.weights
        for weight in hidden:
            z = x @ weight.T
            x = self.network.activation.function(z) * self.network.activation.gain
            x = x / len(weight) ** 0.5
        return x @ last.T


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((N, D)))
    return Part(x, torch.from_numpy(rng.integers(0, C, N)))


def jacobian(network, weights, x):
    """Return the outputs (n c,) and their Jacobian (n c, p) by automatic differentiation."""
    model = Plain(network, weights)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    found = jacrev(lambda given: functional_call(model, given, (x,)))(parameters)
    rows = [found[name].reshape(len(x) * C, -1) for name in parameters]
    return model(x).detach().reshape(-1), torch.cat(rows, dim=1)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize(
    ("loss", "batch", "momentum"),
    [("square", "all", 0.0), ("square", "all", 0.9), ("cross_entropy", 4, 0.0)],
)
def test_an_expansion_descends_as_its_explicit_jacobian_does(problem, loss, batch, momentum, depth):
    x, y = problem
    network = Architecture(depth, 7, activations.get("tanh"))
    of = make_loss(loss, outputs="classes", classes=C, dtype=torch.float64)
    rates, course = (0.05, 0.2), Course(epochs=20, batch_size=batch, momentum=momentum)
    members = [Member(seed, rate) for seed in (1, 2) for rate in rates]
    ensemble = finish(Linearised(network, of, members, {1: problem, 2: problem}, course=course))
    for number, (seed, rate) in enumerate(members):
        weights = network.draw(D, C, seed=seed, like=x)
        f, j = jacobian(network, weights, x)
        change, curve = torch.zeros(j.shape[1], dtype=torch.float64), []
        velocity = change
        for epoch in range(21):
            whole = epoch == 0 or batch == "all"
            order = range(N) if whole else generator(seed, "batch", epoch).permutation(N)
            for rows in torch.tensor([*order]).split(N if whole else batch) if epoch else ():
                out = (f + j @ change).reshape(N, C)[rows]
                pull = torch.zeros(N, C, dtype=torch.float64)
                pull[rows] = of.gradient(out, y[rows]) / len(rows)
                velocity = momentum * velocity - rate * (j.T @ pull.reshape(-1))
                change = change + velocity
            curve.append(of.values((f + j @ change).reshape(N, C), y).mean().item())
        np.testing.assert_allclose(ensemble.metrics["train_loss"][:, number], curve, rtol=1e-10)


def perturbed(rng):
    """Return a residual network of convolutions whose scalars learn more slowly than the rest."""
    size = {"d": 2 * 16, "image": (4, 4, 2), "depth": 4, "width": 2, "outputs": C}
    of = {"activation": activations.get("tanh"), "dtype": torch.float64}
    network = make_network("resnet_fixup", rng, **size, **of)
    for parameter in network.parameters():  # of which some begin at zero
        parameter.data += 0.1 * torch.from_numpy(rng.standard_normal(parameter.shape))
    return network


def test_expansions_of_modules_descend_as_their_explicit_jacobian_does():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((N, 2, 4, 4)))
    data = Part(x, torch.from_numpy(rng.integers(0, C, N)))
    loss = make_loss("cross_entropy", outputs="classes", classes=C, dtype=torch.float64)
    course = Descent(epochs=5, batch_size=4, momentum=0.9, weight_decay=0.01)
    rate, make = 0.05, expansions(perturbed)
    ensemble = ModuleEnsemble(make, loss, [Member(1, rate)], {1: data}, descent=course)
    finish(ensemble)
    network = perturbed(generator(1, "init"))
    weights = {name: p.detach() for name, p in network.named_parameters()}
    rows = jacrev(lambda given: functional_call(network, given, (x,))[0])(weights)
    j = torch.cat([row.reshape(N * C, -1) for row in rows.values()], dim=1)
    factors = {id(p): s for s, group in network.rate_groups().items() for p in group}
    like = [p.detach().reshape(-1) for p in network.parameters()]
    pace = torch.cat(
        [
            torch.full_like(w, factors[id(p)])
            for w, p in zip(like, network.parameters(), strict=True)
        ]
    )
    assert len(pace.unique()) == 2
    kernel, initial = module_kernel(network, x, "full"), network(x)[0].detach().reshape(-1)
    np.testing.assert_allclose(kernel, (j * pace) @ j.T, rtol=1e-10, atol=1e-12)
    start = torch.cat(like).clone()
    w, velocity, curve = start, torch.zeros_like(start), []
    for epoch in range(6):
        order = generator(1, "batch", epoch).permutation(N) if epoch else np.empty(0, int)
        for rows in torch.from_numpy(order).split(4) if epoch else ():
            out = (initial + j @ (w - start)).reshape(N, C)
            pull = torch.zeros(N, C, dtype=torch.float64)
            pull[rows] = loss.gradient(out[rows], data.y[rows]) / len(rows)
            velocity = 0.9 * velocity + j.T @ pull.reshape(-1) + 0.01 * w
            w = w - rate * pace * velocity
        out = (initial + j @ (w - start)).reshape(N, C)
        curve.append(loss.values(out, data.y).mean().item())
    np.testing.assert_allclose(ensemble.metrics["train_loss"][:, 0], curve, rtol=1e-10)
    assert curve[-1] < 0.95 * curve[0]


def test_the_closed_form_is_gradient_descent_on_the_square_loss(problem):
    network = Architecture(2, 6, activations.get("relu"))
    loss = make_loss("square", outputs="classes", classes=C, dtype=torch.float64)
    weights = network.draw(D, C, seed=1, like=problem.x)
    whole = tangent(weights, network.activation, problem.x)
    f, j = jacobian(network, weights, problem.x)
    np.testing.assert_allclose(whole.kernel(), j @ j.T, rtol=0, atol=1e-12)
    values, vectors = np.linalg.eigh(whole.kernel().numpy())
    residual = (loss.codes[problem.y].reshape(-1) - f).numpy()
    squares, rate = np.square(vectors.T @ residual), N / values[-1]
    members, course = [Member(1, rate)], Course(epochs=200)
    ensemble = finish(Linearised(network, loss, members, {1: problem}, course=course))
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
    widths = [32, 128, 512]
    loss = make_loss("square", outputs="classes", classes=C, dtype=torch.float64)
    members = [Member(seed, 0.3) for seed in range(4)]
    parts = dict.fromkeys(range(4), problem)
    off = []
    for width in widths:
        network, course = Architecture(2, width, activations.get("tanh")), Course(epochs=30)
        real = Ensemble(network, loss, members, parts, course=course)
        expanded = Linearised(network, loss, members, parts, course=course)
        a, b = (finish(ensemble).metrics["train_loss"] for ensemble in (real, expanded))
        off.append((np.abs(b - a).max(axis=0) / a[0]).mean())
    assert all(wide < narrow for narrow, wide in pairwise(off))
    assert np.polyfit(np.log(widths), np.log(off), 1)[0] < -0.4

"""Ensembles have autograd's gradients, and members that feel no other."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.training import mlp_ensemble, trainer
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import (
    CROSS_ENTROPY,
    LOSSES,
    SCALAR,
    SQUARE,
    ensemble,
    split,
)
from tests.support.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

METRICS = Ensemble.METRICS
RELU, LEAKY = activations.get("relu"), activations.get("leaky_relu-0.2")
#: Two seeds with three rates each.
MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.05, 0.1, 0.2))


def make(members=MEMBERS, *, n=10, d=3, depth=2, width=7, activation=RELU, **options) -> Ensemble:
    options = {"epochs": 3, "batch_size": 4} | options
    architecture = Architecture(depth, width, activation)
    return ensemble(architecture, members, n=n, shape=(d,), test=n + 1, **options)


def weights(trained: Ensemble) -> list[Tensor]:
    return [torch.from_numpy(w) for name, w in trained.state().items() if "weights_" in name]


#: Those of the project and of a user, with torch's own function.
ACTIVATIONS = {
    RELU: torch.relu,
    LEAKY: lambda z: functional.leaky_relu(z, 0.2),
    activations.get("linear"): lambda z: z,
    activations.get("tanh"): torch.tanh,
    activations.get("gelu"): functional.gelu,
    # A slope below 0 hides the sign of z in sigma(z), so that z itself has to be kept.
    activations.leaky_relu(-0.5, name="vee"): lambda z: functional.leaky_relu(z, -0.5),
    # What the functions return may be z itself, which must not be changed.
    Activation("half_square", lambda z: z**2 / 2, lambda z: z): lambda z: z**2 / 2,
    Activation("itself", lambda z: z, lambda z: z.new_ones(z.shape)): lambda z: z,
}


def plain(activation: Activation, weights: list[Tensor], x: Tensor) -> Tensor:
    """Return the outputs by liu2023relu, Eq. (1), as one writes it for autograd."""
    for w in weights[:-1]:
        x = activation.gain / math.sqrt(len(w)) * ACTIVATIONS[activation](x @ w.T)
    return x @ weights[-1].T


def norm(gradient):
    return math.sqrt(sum(g.square().sum().item() for g in gradient))


CASES = [(activation, 3, CROSS_ENTROPY, 0.0, False) for activation in ACTIVATIONS]
CASES += [(RELU, depth, kind, 0.0, False) for depth in (0, 1) for kind in LOSSES]
CASES += [(RELU, 2, kind, 0.9, together) for kind in LOSSES for together in (False, True)]


@pytest.mark.parametrize(("activation", "depth", "kind", "momentum", "together"), CASES)
def test_training_is_that_of_a_loop_by_autograd(activation, depth, kind, momentum, together):
    """Every step, of four samples and of the three left, but for 1000s of roundings.

    Autograd's network multiplies its scales in another order.
    """
    # rates by which nothing is rounded
    members = [NetworkSpec(1, 2.0**-6), NetworkSpec(5, 2.0**-5)][: 2 if together else 1]
    options = {"depth": depth, "activation": activation, "loss": kind, "momentum": momentum}
    epochs = 2 if momentum else 1
    trained = make(members, n=7, epochs=epochs, together=together, **options)
    assert trained.advance()
    velocities = [[torch.zeros_like(w[0]) for w in weights(trained)] for _ in members]
    for epoch, rows in product(range(1, epochs + 1), (slice(4), slice(4, 7))):
        before = weights(trained)
        assert trained.advance(after(1)) == (rows.stop == 7)
        for number, member in enumerate(members):
            data, order = split(member.seed, 7, 3), generator(member.seed, "batch", epoch)
            chosen = order.permutation(7)[rows]
            matrices = [w[number].clone().requires_grad_() for w in before]
            f = plain(activation, matrices, data.x[chosen])
            loss = plain_losses(kind, f, data.y[chosen]).mean()
            gradient = torch.autograd.grad(loss, matrices)
            pairs = zip(velocities[number], gradient, strict=True)
            velocities[number] = [momentum * v + g for v, g in pairs]
            pairs = zip(before, weights(trained), strict=True)
            moved = [(b[number] - w[number]) / member.rate for b, w in pairs]
            errors = (g - h for g, h in zip(moved, velocities[number], strict=True))
            assert norm(errors) < 1e-12 * norm(velocities[number])
            size = trained.metrics["gradient_norm"][:, number]
            if rows.stop == 7:
                assert size[epoch] == pytest.approx(norm(gradient), abs=0, rel=1e-12)
    assert math.isnan(size[0])
    assert trained.finished
    for number, member in enumerate(members):
        for name, data in (
            ("train", split(member.seed, 7, 3)),
            ("test", split(100 + member.seed, 8, 3)),
        ):
            f = plain(activation, [w[number] for w in weights(trained)], data.x)
            loss = plain_losses(kind, f, data.y).mean().item()
            nearest = (f - torch.tensor([-1, 0, 1])).abs().argmin(1)
            right = ((nearest if kind == SCALAR else f.argmax(1)) == data.y).double().mean().item()
            last = {key: values[-1, number] for key, values in trained.metrics.items()}
            assert last[f"{name}_loss"] == pytest.approx(loss, abs=0, rel=1e-12)
            assert last[f"{name}_accuracy"] == pytest.approx(right, abs=0, rel=1e-15)


@pytest.mark.parametrize("together", [False, True])
def test_samples_are_evaluated_in_parts_and_only_when_asked(monkeypatch, together):
    """Within 1e-14: the sum of ten losses in another order."""
    often = finish(make(epochs=5, together=together))
    monkeypatch.setattr(trainer, "EVALUATED", 4)
    seldom = finish(make(epochs=5, evaluate_every=2, together=together))
    measured = [0, 2, 4, 5]
    for name in METRICS:
        values, expected = seldom.metrics[name], often.metrics[name]
        np.testing.assert_allclose(values[measured], expected[measured], rtol=1e-14, atol=0)
        known = range(1, 6) if name == "gradient_norm" else measured
        assert np.flatnonzero(np.isfinite(values).all(axis=1)).tolist() == [*known]


def test_outputs_far_apart_keep_the_cross_entropy_finite():
    loss = make_loss("cross_entropy", outputs="classes", classes=2, dtype=torch.float32)
    f, wrong = torch.tensor([[1e4, -1e4]]), torch.tensor([1])
    assert loss.values(f, wrong).tolist() == [2e4]
    assert loss.gradient(f, wrong).tolist() == [[1, -1]]
    assert loss.values(f, wrong - 1).tolist() == [0]


def test_steps_are_recorded_anew_for_every_group(monkeypatch):
    """With a stand-in for the graph, which needs a GPU: it calls what would be replayed."""

    class Called:
        def __init__(self, function, rows):
            self.function = function
            recorded.append(self)

        def __call__(self, rows):
            self.function(rows)

    # one diverges within two epochs; a ReLU network might die instead
    recorded, kind = [], {"together": True, "epochs": 6, "loss": SQUARE, "activation": LEAKY}
    members = [*MEMBERS, NetworkSpec(5, 1e6)]
    expected, paused = finish(make(members, **kind)), make(members, **kind)
    assert paused.advance()
    assert not paused.advance(after(1))  # of three steps
    monkeypatch.setattr(mlp_ensemble, "waits", lambda step: step())
    monkeypatch.setattr(mlp_ensemble, "Recorded", Called)
    found = make(members, **kind)
    found._replays = True
    finish(found)
    assert len(recorded) == 2, "before one diverged, and after it"
    assert_same(found.state(), expected.state())
    found.restore(paused.state())
    finish(found)
    assert len(recorded) == 3, "the first group was left with its last step"
    assert_same(found.state(), expected.state())

"""Ensembles have autograd's gradients, and members that feel no other."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import MultiStepLR

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.training import mlp_ensemble, trainer
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import LOSSES, Mlp, ensemble, networks, split
from tests.support.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

CROSS_ENTROPY, SQUARE, SCALAR = LOSSES
RELU, LEAKY = activations.get("relu"), activations.get("leaky_relu-0.2")
#: Two seeds with three rates each.
MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.05, 0.1, 0.2))


def make(members=MEMBERS, *, n=10, d=3, depth=2, width=7, activation=RELU, **options) -> Ensemble:
    options = {"epochs": 3, "batch_size": 4} | options
    architecture = Mlp(depth, width, activation)
    return ensemble(architecture, members, n=n, shape=(d,), test=n + 1, **options)


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


class Plain(nn.Module):
    """The network of liu2023relu, Eq. (1), as one writes it for autograd."""

    def __init__(self, activation, weights):
        super().__init__()
        self.activation, self.weights = activation, nn.ParameterList(weights)

    def forward(self, x):
        *hidden, last = self.weights
        for w in hidden:
            value = ACTIVATIONS[self.activation](x @ w.T)
            x = self.activation.gain / math.sqrt(len(w)) * value
        return x @ last.T, None


def weights(trained, number: int) -> list[Tensor]:
    if isinstance(trained, Ensemble):
        state = trained.state().items()
        return [torch.from_numpy(w[number]) for name, w in state if "network" in name]
    return [*trained._groups[number].network.parameters()]


def norm(tensors):
    return math.sqrt(sum(t.square().sum().item() for t in tensors))


CASES = [(activation, 3, CROSS_ENTROPY, {}) for activation in ACTIVATIONS]
CASES += [(RELU, depth, kind, {}) for depth in (0, 1) for kind in LOSSES]
MOMENTUM = ({"momentum": 0.9, "together": together} for together in (False, True))
CASES += [(RELU, 2, *case) for case in product(LOSSES, MOMENTUM)]
DECAY = {"momentum": 0.9, "weight_decay": 1e-2, "decay_at": (1, 3), "decay_factor": 0.3}
CASES += [("fc_layer_norm", 2, kind, DECAY) for kind in (CROSS_ENTROPY, SCALAR)]
CASES += [("tied", 2, CROSS_ENTROPY, DECAY)]  # a weight of two layers takes one step of both


@pytest.mark.parametrize(("kind", "depth", "loss", "options"), CASES)
def test_training_is_that_of_a_loop_with_torchs_sgd(kind, depth, loss, options):
    """Every step, of four samples and of the three left, but for 1000s of roundings.

    Autograd's network multiplies its scales in another order.
    """
    # rates by which nothing is rounded
    members = [NetworkSpec(1, 2.0**-6), NetworkSpec(5, 2.0**-5)][: 1 + options.get("together", 0)]
    if plain := isinstance(kind, Activation):
        made = Mlp(depth, 7, kind)
    else:
        size = {"image": (3, 1, 1), "depth": depth, "width": 4, "activation": "selu"}
        made = networks(kind, **size, outputs=1 if loss == SCALAR else 3)
    epochs, more = 4 if options else 1, {"batch_size": 4, "loss": loss} | options
    trained = ensemble(made, members, n=7, shape=(3,), test=8, epochs=epochs, **more)
    assert trained.advance()
    loops = []
    for number, (seed, rate) in enumerate(members):
        model = Plain(kind, weights(trained, number)) if plain else made(generator(seed, "init"))
        rule = {name: options.get(name, 0) for name in ("momentum", "weight_decay")}
        sgd = torch.optim.SGD(model.parameters(), lr=rate, **rule)
        loops.append((seed, model, sgd, MultiStepLR(sgd, options.get("decay_at", ()), gamma=0.3)))
    for epoch, rows in product(range(1, epochs + 1), (slice(4), slice(4, 7))):
        assert trained.advance(after(1)) == (rows.stop == 7)
        for number, (seed, model, sgd, schedule) in enumerate(loops):
            chosen, data = generator(seed, "batch", epoch).permutation(7)[rows], split(seed, 7, 3)
            before = [w.detach().clone() for w in model.parameters()]
            sgd.zero_grad()
            plain_losses(loss, model(data.x[chosen])[0], data.y[chosen]).mean().backward()
            gradient = norm(w.grad for w in model.parameters())
            sgd.step()
            moved = norm(w - b for w, b in zip(model.parameters(), before, strict=True))
            pairs = zip(model.parameters(), weights(trained, number), strict=True)
            assert norm(w - other for w, other in pairs) < 1e-12 * moved
            if rows.stop == 7:
                schedule.step()
                size = trained.metrics["gradient_norm"][epoch, number]
                assert size == pytest.approx(gradient, abs=0, rel=1e-12)
    assert np.isnan(trained.metrics["gradient_norm"][0]).all()
    assert trained.finished
    for number, (seed, model, *_) in enumerate(loops):
        for name, data in (("train", split(seed, 7, 3)), ("test", split(100 + seed, 8, 3))):
            f = model(data.x)[0]
            expected = plain_losses(loss, f, data.y).mean().item()
            nearest = (f - torch.tensor([-1, 0, 1])).abs().argmin(1)
            right = ((nearest if loss == SCALAR else f.argmax(1)) == data.y).double().mean().item()
            last = {key: values[-1, number] for key, values in trained.metrics.items()}
            assert last[f"{name}_loss"] == pytest.approx(expected, abs=0, rel=1e-12)
            assert last[f"{name}_accuracy"] == pytest.approx(right, abs=0, rel=1e-15)


@pytest.mark.parametrize("together", [False, True])
def test_samples_are_evaluated_in_parts_and_only_when_asked(monkeypatch, together):
    """Within 1e-14: the sum of ten losses in another order."""
    often = finish(make(epochs=5, together=together))
    monkeypatch.setattr(trainer, "EVALUATED", 4)
    seldom = finish(make(epochs=5, evaluate_every=2, together=together))
    measured = [0, 2, 4, 5]
    for name in Ensemble.METRICS[:-1]:
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

    def record(function, _rows):
        recorded.append(function)
        return function

    # one diverges within two epochs; a ReLU network might die instead
    recorded, kind = [], {"together": True, "epochs": 6, "loss": SQUARE, "activation": LEAKY}
    members = [*MEMBERS, NetworkSpec(5, 1e6)]
    expected, paused = finish(make(members, **kind)), make(members, **kind)
    assert paused.advance()
    assert not paused.advance(after(1))  # of three steps
    monkeypatch.setattr(mlp_ensemble, "waits", lambda step: step())
    monkeypatch.setattr(mlp_ensemble, "Recorded", record)
    found = make(members, **kind)
    found._replays = True
    finish(found)
    assert len(recorded) == 2, "before one diverged, and after it"
    assert_same(found.state(), expected.state())
    found.restore(paused.state())
    finish(found)
    assert len(recorded) == 3, "the first group was left with its last step"
    assert_same(found.state(), expected.state())

"""Ensembles have autograd's gradients, members that feel no other, and measure what they say."""

import math
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.utils import parameters_to_vector
from torch.optim.lr_scheduler import MultiStepLR

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.user_models import OwnNetwork
from ntk_conditioning.seeds import generator
from ntk_conditioning.training import mlp_ensemble, trainer
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.steps import PADDING as P
from ntk_conditioning.training.steps import crop_flip, draw_moves
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import LOSSES, ensemble, networks, split
from tests.support.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

CROSS_ENTROPY, SQUARE, SCALAR = LOSSES
RELU, LEAKY = activations.get("relu"), activations.get("leaky_relu-0.2")
MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.05, 0.1, 0.2))
SHAPE = (2, 6, 5)


def mlps(members=MEMBERS, *, activation=RELU, **options) -> Ensemble:
    usual = {"n": 10, "shape": (3,), "test": 11, "epochs": 3, "batch_size": 4, "together": False}
    make = networks("mlp", image=(3,), depth=2, width=7, activation=activation)
    return ensemble(make, members, **usual | options)


def network(name: str, **options):
    depth = 8 if name.startswith("resnet") else 2
    return networks(name, image=(6, 5, 2), depth=depth, width=4, activation="selu", **options)


def modules(name="fc_batch_norm", members=MEMBERS, *, dtype=torch.float64, **more):
    usual = {"n": 11, "shape": SHAPE, "test": 7, "epochs": 3, "batch_size": 4, "dtype": dtype}
    return ensemble(network(name, dtype=dtype), members, **usual | more)


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


def plain(activation, weights, x):
    """Return the outputs of liu2023relu, Eq. (1), as one writes them for autograd."""
    *hidden, last = weights
    for w in hidden:
        x = activation.gain / math.sqrt(len(w)) * ACTIVATIONS[activation](x @ w.T)
    return x @ last.T


CASES = [(activation, 3, CROSS_ENTROPY, {}) for activation in ACTIVATIONS]
CASES += [(RELU, depth, kind, {}) for depth in (0, 1) for kind in LOSSES]
MOMENTUM = ({"momentum": 0.9, "together": together} for together in (False, True))
CASES += [(RELU, 2, *case) for case in product(LOSSES, MOMENTUM)]
DECAY = {"momentum": 0.9, "weight_decay": 1e-2, "decay_at": (1, 3), "decay_factor": 0.3}
CASES += [("fc_layer_norm", 2, kind, DECAY) for kind in (CROSS_ENTROPY, SCALAR)]
CASES += [("tied", 2, CROSS_ENTROPY, DECAY)]  # a weight of two layers takes one step of both


@pytest.mark.parametrize(("kind", "depth", "loss", "options"), CASES)
def test_training_is_that_of_a_loop_with_torchs_sgd(kind, depth, loss, options):
    """Every step, but for 1000s of roundings: autograd's network multiplies in another order."""
    # rates by which nothing is rounded
    members = [NetworkSpec(1, 2.0**-6), NetworkSpec(5, 2.0**-5)][: 1 + options.get("together", 0)]
    by_hand, outputs = isinstance(kind, Activation), 1 if loss == SCALAR else 3
    size = {"image": (3, 1, 1), "depth": depth, "width": 7, "outputs": outputs}
    make = networks("mlp" if by_hand else kind, **size, activation=kind if by_hand else "selu")
    epochs, more = 4 if options else 1, {"batch_size": 4, "loss": loss} | options
    more |= {"together": options.get("together", False)} if by_hand else {}
    trained = ensemble(make, members, n=7, shape=(3,), test=8, epochs=epochs, **more)
    assert trained.advance()
    loops, rule = [], {name: options.get(name, 0) for name in ("momentum", "weight_decay")}
    for number, (seed, rate) in enumerate(members):
        model = make(generator(seed, "init"))
        names, weights = zip(*model.named_parameters(), strict=True)
        outputs = partial(plain, kind, weights) if by_hand else lambda x, model=model: model(x)[0]
        sgd = torch.optim.SGD(weights, lr=rate, **rule)
        schedule = MultiStepLR(sgd, options.get("decay_at", ()), gamma=0.3)
        loops.append((number, seed, names, weights, outputs, sgd, schedule))
    for epoch, rows in product(range(1, epochs + 1), (slice(4), slice(4, 7))):
        assert trained.advance(after(1)) == (rows.stop == 7)
        state = trained.state()
        for number, seed, names, weights, outputs, sgd, schedule in loops:
            chosen, data = generator(seed, "batch", epoch).permutation(7)[rows], split(seed, 7, 3)
            before = parameters_to_vector(weights).detach()
            sgd.zero_grad()
            plain_losses(loss, outputs(data.x[chosen]), data.y[chosen]).mean().backward()
            gradient = parameters_to_vector(w.grad for w in weights).norm().item()
            sgd.step()
            expected = parameters_to_vector(weights)
            found = np.concatenate([state[f"network.{name}"][number].ravel() for name in names])
            error = (torch.from_numpy(found) - expected).norm()
            assert error < 1e-12 * (expected - before).norm()
            if rows.stop == 7:
                schedule.step()
                size = trained.metrics["gradient_norm"][epoch, number]
                assert size == pytest.approx(gradient, abs=0, rel=1e-12)
    assert np.isnan(trained.metrics["gradient_norm"][0]).all()
    assert trained.finished
    for number, seed, _, _, outputs, *_ in loops:
        for name, data in (("train", split(seed, 7, 3)), ("test", split(100 + seed, 8, 3))):
            f = outputs(data.x)
            expected = plain_losses(loss, f, data.y).mean().item()
            nearest = (f - torch.tensor([-1, 0, 1])).abs().argmin(1)
            right = ((nearest if loss == SCALAR else f.argmax(1)) == data.y).double().mean().item()
            last = {key: values[-1, number] for key, values in trained.metrics.items()}
            assert last[f"{name}_loss"] == pytest.approx(expected, abs=0, rel=1e-12)
            assert last[f"{name}_accuracy"] == pytest.approx(right, abs=0, rel=1e-15)


@pytest.mark.parametrize("more", [{"weight_decay": 0.1}, {"decay_at": [1]}])
def test_steps_by_hand_refuse_what_they_do_not_do(more):
    with pytest.raises(UserError, match="an Ensemble has no weight_decay, decay_at"):
        mlps(**more)


#: By what the error says; -1 would count codes from the end.
NO_LABELS = {"from 0 to 2": ([-1, 1, 1], [0, 3, 1]), "int64": ([0.0, 1.0, 1.0],), "shapes": ([0],)}


@pytest.mark.parametrize(("message", "y"), [(m, y) for m, each in NO_LABELS.items() for y in each])
def test_labels_that_are_no_classes_are_refused(message, y):
    x = torch.ones(3, 4)
    loss = make_loss("square", outputs="scalar", classes=3, dtype=x.dtype)
    good, bad = trainer.Split(x, torch.arange(3)), trainer.Split(x[: len(y)], torch.tensor(y))
    for train, test in (({1: good, 5: bad}, None), ({1: good}, {1: good, 5: bad})):
        with pytest.raises(UserError, match=message):
            trainer.Training(network("fc"), loss, [], train, test, descent=Descent(epochs=1))


@pytest.mark.parametrize("together", [False, True])
def test_samples_are_evaluated_in_parts_and_only_when_asked(monkeypatch, together):
    """Within 1e-14: the sum of ten losses in another order."""
    often = finish(mlps(epochs=5, together=together))
    monkeypatch.setattr(trainer, "EVALUATED", 4)
    seldom = finish(mlps(epochs=5, evaluate_every=2, together=together))
    for name, expected in often.metrics.items():
        if name != "gradient_norm":
            expected[[1, 3]] = np.nan
        np.testing.assert_allclose(seldom.metrics[name], expected, rtol=1e-14, atol=0)


def test_outputs_far_apart_keep_the_cross_entropy_finite():
    loss = make_loss("cross_entropy", outputs="classes", classes=2, dtype=torch.float32)
    f, wrong = torch.tensor([[1e4, -1e4]]), torch.tensor([1])
    assert loss.values(f, wrong).tolist() == [2e4]
    assert loss.gradient(f, wrong).tolist() == [[1, -1]]
    assert loss.values(f, wrong - 1).tolist() == [0]


def test_steps_are_recorded_anew_for_every_group(monkeypatch):
    """With a stand-in for the graph, which needs a GPU: it calls what would be replayed."""
    recorded = []
    monkeypatch.setattr(mlp_ensemble, "waits", lambda step: step())
    monkeypatch.setattr(mlp_ensemble, "Recorded", lambda step, _: recorded.append(step) or step)
    # one diverges within two epochs; a ReLU network might die instead
    kind = {"together": True, "epochs": 6, "loss": SQUARE, "activation": LEAKY}
    expected, paused, found = (mlps([*MEMBERS, NetworkSpec(5, 1e6)], **kind) for _ in range(3))
    finish(expected)
    assert paused.advance()
    assert not paused.advance(after(1))  # of three steps
    found._replays = True
    # before one diverged and after it; the first group is left with its last step
    for start, records in ((found, 2), (paused, 3)):
        found.restore(start.state())
        assert_same(finish(found).state(), expected.state())
        assert len(recorded) == records


def test_what_a_module_keeps_to_itself_goes_on_after_a_pause():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()), persistent=False)

        def forward(self, x):
            self.calls += self.training
            return x * (1 + self.calls / 10)

    def make(rng):
        torch.manual_seed(int(rng.integers(99)))
        layers = torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), Counting(), torch.nn.Linear(5, 3)
        return OwnNetwork(torch.nn.Sequential(*layers).double().eval())

    kind = {"n": 10, "shape": (4,), "epochs": 2, "batch_size": 5}
    expected, paused, found = (ensemble(make, [NetworkSpec(1, 0.1)], **kind) for _ in range(3))
    finish(expected)
    paused.advance()
    assert not paused.advance(after(1))
    found.restore(paused.state())
    assert_same(finish(found).state(), expected.state())


def test_moves_are_those_of_a_loop_follow_from_seed_and_epoch_and_are_spread_evenly():
    x, moves = split(0, 40, *SHAPE).x, draw_moves(3, 2, 40)
    result = crop_flip(x, torch.from_numpy(moves))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (P, P), (P, P)))
    for image, framed, (top, left, mirrored) in zip(result.numpy(), padded, moves, strict=True):
        expected = framed[:, top : top + 6, left : left + 5]
        np.testing.assert_array_equal(image, expected[:, :, ::-1] if mirrored else expected)
    moves = draw_moves(3, 2, 20_000)
    np.testing.assert_array_equal(moves, draw_moves(3, 2, 20_000))
    for other in (draw_moves(4, 2, 20_000), draw_moves(3, 1, 20_000)):
        assert (moves == other).all(1).mean() < 0.02
    for column, choices in zip(moves.T, (9, 9, 2), strict=True):
        expected, counts = 20_000 / choices, np.bincount(column, minlength=choices)
        assert len(counts) == choices
        assert abs(counts - expected).max() < 5 * expected**0.5  # standard deviations, or more


def test_augmentation_changes_the_training_and_not_what_is_measured():
    still, moved = finish(modules()), finish(modules(augmentation="crop_flip"))
    for values, other in zip(still.metrics.values(), moved.metrics.values(), strict=True):
        np.testing.assert_array_equal(values[0], other[0])
        assert not np.allclose(values[1:], other[1:])


def test_the_mean_dot_product_is_that_of_all_pairs(monkeypatch):
    monkeypatch.setattr(trainer, "EVALUATED", 3)  # in parts
    trained = modules("resnet_batch_norm", MEMBERS[:1])
    trained.advance()
    model, (x, labels) = network("resnet_batch_norm")(generator(1, "init")), split(101, 7, *SHAPE)
    with torch.no_grad():
        f, u = model.eval()(x)
    cosines = [functional.cosine_similarity(*pair, dim=0) for pair in permutations(u, 2)]
    expected = np.mean(cosines), functional.cross_entropy(f, labels).item()
    found = [trained.metrics[name][0, 0] for name in ("test_dot_product", "test_loss")]
    assert found == pytest.approx(expected, rel=1e-12)


def test_mixed_precision_is_near_to_single_and_another():
    """bfloat16 has 8 bits: some percent after an epoch."""
    both = (modules("fc", epochs=1, dtype=torch.float32, mixed_precision=k) for k in (False, True))
    losses = [finish(trained).metrics["train_loss"] for trained in both]
    assert not np.array_equal(*losses)
    np.testing.assert_allclose(*losses, rtol=0.05)

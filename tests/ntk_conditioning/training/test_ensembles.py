"""Ensembles have autograd's gradients, measure what they say, and drop members that diverge."""

from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
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
from ntk_conditioning.training.steps import PADDING, crop_flip, draw_moves
from ntk_conditioning.training.trainer import NetworkSpec, Split
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


DEAD, HEALTHY = 1.0, 0.1
X, Y = (torch.from_numpy(array[:200]) for array in load_digits(return_X_y=True))
DATA = Split(X.float() / 16, Y)
IMAGES = Split(DATA.x.reshape(-1, 1, 8, 8), DATA.y)


def digits(rates, name="fc", *, depth=3, width=32, seed=1, data=IMAGES, outputs=10, **options):
    size = {"image": data.x.shape[:0:-1], "depth": depth, "width": width, "outputs": outputs}
    make = networks(name, **size, activation="relu", dtype=data.x.dtype)
    members, usual = [NetworkSpec(seed, rate) for rate in rates], {"epochs": 12, "classes": 10}
    return ensemble(make, members, **usual | {"data": data} | options)


digit_mlps = partial(digits, name="mlp", data=DATA, outputs=1, loss=SCALAR, together=False)


def assert_pauses_leave_no_trace(make, *, steps):
    whole, parts = finish(make()), make()
    while not parts.finished:
        parts.advance(after(steps))
        state, parts = parts.state(), make()
        parts.restore(state)
    assert_same(whole.state(), parts.state())
    return whole


#: Of a user, and those whose functions return z itself, which must not be changed.
OWN = Activation("half_square", lambda z: z**2 / 2, lambda z: z)
ITSELF = Activation("itself", lambda z: z, lambda z: z.new_ones(z.shape))
# A slope below 0 hides the sign of z in sigma(z), so that z itself has to be kept.
ACTIVATIONS = [RELU, LEAKY, activations.leaky_relu(-0.5, name="vee"), OWN, ITSELF]
ACTIVATIONS += map(activations.get, ("linear", "tanh", "gelu"))
CASES = [(activation, 3, CROSS_ENTROPY, {}) for activation in ACTIVATIONS]
CASES += [(RELU, depth, kind, {}) for depth in (0, 1) for kind in LOSSES]
MOMENTUM = ({"momentum": 0.9, "together": together} for together in (False, True))
CASES += [(RELU, 2, *case) for case in product(LOSSES, MOMENTUM)]
DECAY = {"momentum": 0.9, "weight_decay": 1e-2, "decay_at": (1, 3), "decay_factor": 0.3}
CASES += [("fc_layer_norm", 2, kind, DECAY) for kind in (CROSS_ENTROPY, SCALAR)]
CASES += [("tied", 2, CROSS_ENTROPY, DECAY)]  # a weight of two layers takes one step of both


@pytest.mark.parametrize(("kind", "depth", "loss", "options"), CASES)
def test_training_is_that_of_a_loop_with_torchs_sgd(kind, depth, loss, options):
    # rates by which nothing is rounded
    members = [NetworkSpec(1, 2.0**-6), NetworkSpec(5, 2.0**-5)][: 1 + options.get("together", 0)]
    by_hand, outputs = isinstance(kind, Activation), 1 if loss == SCALAR else 3
    size = {"image": (3, 1, 1), "depth": depth, "width": 7, "outputs": outputs}
    make = networks("mlp" if by_hand else kind, **size, activation=kind if by_hand else "selu")
    epochs, more = 4 if options else 1, {"batch_size": 4, "loss": loss} | options
    more |= {"together": options.get("together", False)} if by_hand else {}
    trained = ensemble(make, members, n=7, shape=(3,), test=8, epochs=epochs, **more)
    assert trained.advance()
    states, rule = [], {name: options.get(name, 0) for name in ("momentum", "weight_decay")}
    for _ in range(epochs):
        trained.advance()
        states.append(trained.state())
    assert trained.finished
    assert np.isnan(trained.metrics["gradient_norm"][0]).all()
    for number, (seed, rate) in enumerate(members):
        model, train = make(generator(seed, "init")), split(seed, 7, 3)
        names, weights = zip(*model.named_parameters(), strict=True)
        sgd = torch.optim.SGD(weights, lr=rate, **rule)
        schedule = MultiStepLR(sgd, options.get("decay_at", ()), gamma=0.3)
        for epoch, state in enumerate(states, start=1):
            before = parameters_to_vector(weights).detach()
            for rows in np.split(generator(seed, "batch", epoch).permutation(7), [4]):
                sgd.zero_grad()
                plain_losses(loss, model(train.x[rows])[0], train.y[rows]).mean().backward()
                sgd.step()
            schedule.step()
            expected = parameters_to_vector(weights)
            found = np.concatenate([state[f"network.{name}"][number].ravel() for name in names])
            error = (torch.from_numpy(found) - expected).norm()
            assert error < 1e-12 * (expected - before).norm()  # 1000s of roundings
            last_gradient = parameters_to_vector(w.grad for w in weights).norm().item()
            size = trained.metrics["gradient_norm"][epoch, number]
            assert size == pytest.approx(last_gradient, abs=0, rel=1e-12)
        for name, (x, y) in (("train", train), ("test", split(100 + seed, 8, 3))):
            f = model(x)[0]
            nearest = (f - torch.tensor([-1, 0, 1])).abs().argmin(1)
            right = ((nearest if loss == SCALAR else f.argmax(1)) == y).double().mean().item()
            last = {key: values[-1, number] for key, values in trained.metrics.items()}
            expected = plain_losses(loss, f, y).mean().item()
            assert last[f"{name}_loss"] == pytest.approx(expected, abs=0, rel=1e-12)
            assert last[f"{name}_accuracy"] == pytest.approx(right, abs=0, rel=1e-15)


@pytest.mark.parametrize("more", [{"weight_decay": 0.1}, {"decay_at": [1]}])
def test_steps_by_hand_refuse_what_they_do_not_do(more):
    with pytest.raises(UserError, match="an Ensemble has no weight_decay, decay_at"):
        mlps(**more)


#: By what the error says; -1 would count codes from the end.
NO_LABELS = {"from 0 to 2": ([-1, 1, 1], [0, 3, 1]), "int64": ([0.0, 1.0, 1.0],)}


@pytest.mark.parametrize(("message", "y"), [(m, y) for m, each in NO_LABELS.items() for y in each])
def test_labels_that_are_no_classes_are_refused(message, y):
    x, make = torch.ones(3, 4), networks("mlp", image=(4,), depth=2, width=7, activation=RELU)
    loss = make_loss("square", outputs="scalar", classes=3, dtype=x.dtype)
    good, bad = trainer.Split(x, torch.arange(3)), trainer.Split(x[: len(y)], torch.tensor(y))
    for train, test in (({1: good, 5: bad}, None), ({1: good}, {1: good, 5: bad})):
        with pytest.raises(UserError, match=message):
            trainer.Training(make, loss, [], train, test, descent=Descent(epochs=1))


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
    assert_pauses_leave_no_trace(partial(ensemble, make, MEMBERS[:1], **kind), steps=1)


def test_moves_are_those_of_a_loop_follow_from_seed_and_epoch_and_are_spread_evenly():
    x, moves = split(0, 40, *SHAPE).x, draw_moves(3, 2, 40)
    result = crop_flip(x, torch.from_numpy(moves))
    padded = np.pad(x.numpy(), [(0, 0)] * 2 + [(PADDING, PADDING)] * 2)
    for image, framed, (top, left, mirrored) in zip(result.numpy(), padded, moves, strict=True):
        expected = framed[:, top : top + 6, left : left + 5]
        np.testing.assert_array_equal(image, expected[:, :, ::-1] if mirrored else expected)
    moves, *others = (draw_moves(*of, 20_000) for of in ((3, 2), (3, 2), (4, 2), (3, 1)))
    same = [(moves == other).all(1).mean() for other in others]
    assert same[0] == 1 > 50 * max(same[1:])
    for column, choices in zip(moves.T, (9, 9, 2), strict=True):
        expected, counts = 20_000 / choices, np.bincount(column, minlength=choices)
        assert len(counts) == choices
        assert abs(counts - expected).max() < 5 * expected**0.5  # standard deviations, or more


def test_augmentation_changes_the_training_and_not_what_is_measured():
    kind = {"test": 50, "shape": (1, 8, 8), "epochs": 3, "batch_size": 50}
    both = [finish(digits([0.05], **kind, augmentation=name)) for name in ("none", "crop_flip")]
    still, moved = (trained.metrics for trained in both)
    for name in still:
        np.testing.assert_array_equal(still[name][0], moved[name][0])
        assert not np.allclose(still[name][1:], moved[name][1:])


def test_the_mean_dot_product_is_that_of_all_pairs(monkeypatch):
    monkeypatch.setattr(trainer, "EVALUATED", 3)  # in parts
    size = {"image": SHAPE[1:] + SHAPE[:1], "depth": 8, "width": 4}
    make = networks("resnet_batch_norm", **size, activation="selu")
    trained = ensemble(make, MEMBERS[:1], n=11, shape=SHAPE, test=7, epochs=1)
    trained.advance()
    model, (x, labels) = make(generator(1, "init")), split(101, 7, *SHAPE)
    with torch.no_grad():
        f, u = model.eval()(x)
    cosines = [functional.cosine_similarity(*pair, dim=0) for pair in permutations(u, 2)]
    expected = np.mean(cosines), functional.cross_entropy(f, labels).item()
    found = [trained.metrics[name][0, 0] for name in ("test_dot_product", "test_loss")]
    assert found == pytest.approx(expected, rel=1e-12)


def test_mixed_precision_is_near_to_single_and_another():
    both = [finish(digits([0.05], epochs=1, mixed_precision=mixed)) for mixed in (False, True)]
    losses = [trained.metrics["train_loss"] for trained in both]
    assert not np.array_equal(*losses)
    np.testing.assert_allclose(*losses, rtol=0.05)  # bfloat16 has 8 bits


@pytest.mark.parametrize("together", [False, True])
def test_an_explosion_that_ends_in_death_is_divergence_and_a_mild_rise_is_not(together):
    trained = finish(digit_mlps([DEAD, HEALTHY], together=together))
    assert trained.diverged.tolist() == [2, -1]
    assert finish(digit_mlps([DEAD], epochs=2)).diverged.tolist() == [2]  # also in the last step
    known = np.isfinite(trained.metrics["train_loss"]).T.tolist()
    assert known == [[True] * 2 + [False] * 11, [True] * 13]
    losses = finish(digit_mlps([HEALTHY])).metrics["train_loss"][:, 0]
    rtol = 1e-4 if together else 0
    np.testing.assert_allclose(trained.metrics["train_loss"][:, 1], losses, rtol)
    # the highest of all steps, not the last
    assert trained.state()["peak_loss"][1] == pytest.approx(losses[:-1].max(), rel=1e-4)
    # It rises to 5 times the initial one and ends below a quarter of that, which is legal.
    assert 4 < losses.max() / losses[0] < 6
    assert losses[-1] < losses[0] / 4


MOVED = {"momentum": 0.1, "weight_decay": 1e-3, "augmentation": "crop_flip"}
MOVED |= {"decay_at": (5,), "decay_factor": 0.5}
TRAININGS = [partial(digit_mlps, [DEAD, HEALTHY], together=together) for together in (False, True)]
TRAININGS += [partial(digit_mlps, [10 * DEAD, HEALTHY / 10], momentum=0.5)]
TRAININGS += [partial(digits, [10.0, 0.1], **MOVED)]
TRAININGS += [partial(digits, [1e6, 0.1], "fc_batch_norm", **MOVED)]


@pytest.mark.parametrize("make", TRAININGS)
def test_an_explosion_between_two_evaluations_is_seen_and_pauses_leave_no_trace(make):
    make = partial(make, batch_size=50, evaluate_every=12)
    assert assert_pauses_leave_no_trace(make, steps=5).diverged.tolist() == [12, -1]


def test_growth_from_nearly_nothing_is_measured_against_zero_outputs():
    """f = w x with x = ±1 as its targets and w - 1 = 1e-4, which each step multiplies by -1.5."""
    data = Split(torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0, 9]))
    trained = digit_mlps([2.5, 2.5], depth=0, data=data, epochs=40)
    # of which the second is infinite from the start
    trained.restore(trained.state() | {"network.weights.0": np.array([[[1.0001]], [[np.inf]]])})
    assert all(trained.advance() for _ in range(2))
    trained.restore(trained.state())  # which goes on without the second
    finish(trained)
    grown = 0.5 * (1e-4 * 1.5 ** np.arange(41)) ** 2
    lost = int(np.argmax(grown > trainer.GROWTH * 0.5))
    assert grown[lost - 1] > 1e8 * grown[0]
    np.testing.assert_allclose(trained.metrics["train_loss"][:lost, 0], grown[:lost], rtol=1e-9)
    assert trained.diverged.tolist() == [lost, 0]
    assert all(np.isnan(values[:, 1]).all() for values in trained.metrics.values())


def test_networks_that_die_have_diverged_without_growth():
    for together in (False, True):
        kind = {"depth": 2, "width": 8, "seed": 8, "together": together}
        trained = finish(digit_mlps([0.3, 0.001], **kind))
        assert trained.diverged.tolist() == [1, -1]
        assert trained.state()["peak_loss"][0] == pytest.approx(53.5, abs=0.1)
    trained = digits([0.1, 0.05])
    trained.advance()
    state = trained.state()  # of modules only the classifier's biases are left: outputs are equal
    state["network.body.1.weight"][0] = 0
    state["network.body.1.bias"][0] = -1
    state["network.head.bias"][0] = np.linspace(-1, 1, 10)
    trained.restore(state)
    assert finish(trained).diverged.tolist() == [1, -1]
    data = Split(torch.tensor([[1.0, 0.0], [1.0, 1.0]]).double(), torch.tensor([0, 9]))
    trained = digit_mlps([1e-30], depth=0, data=data, epochs=1)
    trained.advance()
    trained.restore(trained.state() | {"network.weights.0": np.array([[[20, 1e-14]]])})
    assert finish(trained).diverged.tolist() == [1]  # 20 and 20 + 1e-14 are roundings apart


def test_lagging_statistics_and_outputs_that_are_equal_from_the_start_are_no_divergence():
    """Fixup's classifier begins at zero, and the last, a ReLU network, is dead from the start."""
    course = {"batch_size": 50, "momentum": 0.9}
    lagging = digits([1.0], "fc_batch_norm", depth=12, width=16, epochs=4, **course)
    fixup = digits([0.1], "resnet_fixup", depth=8, width=4, epochs=1, batch_size=50)
    dead = digit_mlps([0.3], depth=1, width=2, seed=10)
    for trained in (lagging, fixup, dead):
        assert finish(trained).diverged.tolist() == [-1]
    losses = lagging.metrics["train_loss"][:, 0]  # those of its steps fall
    assert losses.max() > trainer.GROWTH * losses[0]
    assert np.ptp(dead.metrics["train_loss"]) == 0

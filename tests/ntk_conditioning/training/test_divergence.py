"""Networks diverge if their loss explodes or their outputs become constant, not by a mild rise."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from ntk_conditioning.training import trainer
from ntk_conditioning.training.trainer import NetworkSpec, Split
from tests.ntk_conditioning.training.ensembles import SCALAR, ensemble, networks
from tests.support.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

DEAD, HEALTHY = 1.0, 0.1
X, Y = (torch.from_numpy(array[:200]) for array in load_digits(return_X_y=True))
DATA = Split(X.float() / 16, Y)
IMAGES = Split(DATA.x.reshape(-1, 1, 8, 8), DATA.y)


def modules(rates, name="fc", *, depth=3, width=32, seed=1, data=IMAGES, outputs=10, **options):
    size = {"image": data.x.shape[:0:-1], "depth": depth, "width": width, "outputs": outputs}
    make = networks(name, **size, activation="relu", dtype=data.x.dtype)
    members, usual = [NetworkSpec(seed, rate) for rate in rates], {"epochs": 12, "classes": 10}
    return ensemble(make, members, **usual | {"data": data} | options)


mlp = partial(modules, name="mlp", data=DATA, outputs=1, loss=SCALAR, together=False)


@pytest.mark.parametrize("together", [False, True])
def test_an_explosion_that_ends_in_death_is_divergence_and_a_mild_rise_is_not(together):
    """Its last loss is finite, and lower than the first."""
    trained = finish(mlp([DEAD, HEALTHY], together=together))
    assert trained.diverged.tolist() == [2, -1]
    assert finish(mlp([DEAD], epochs=2)).diverged.tolist() == [2]  # also in the last step
    known = np.isfinite(trained.metrics["train_loss"]).T.tolist()
    assert known == [[True] * 2 + [False] * 11, [True] * 13]
    losses = finish(mlp([HEALTHY])).metrics["train_loss"][:, 0]
    rtol = 1e-4 if together else 0
    np.testing.assert_allclose(trained.metrics["train_loss"][:, 1], losses, rtol)
    # the highest of all steps, not the last
    assert trained.state()["peak_loss"][1] == pytest.approx(losses[:-1].max(), rel=1e-4)
    # It rises to 5 times the initial one and ends below a quarter of that, which is legal.
    assert 4 < losses.max() / losses[0] < 6
    assert losses[-1] < losses[0] / 4


MOVED = {"momentum": 0.1, "weight_decay": 1e-3, "augmentation": "crop_flip"}
MOVED |= {"decay_at": (5,), "decay_factor": 0.5}
TRAININGS = [partial(mlp, [DEAD, HEALTHY], together=together) for together in (False, True)]
TRAININGS += [partial(mlp, [10 * DEAD, HEALTHY / 10], momentum=0.5)]
TRAININGS += [partial(modules, [10.0, 0.1], **MOVED)]
TRAININGS += [partial(modules, [1e6, 0.1], "fc_batch_norm", **MOVED)]


@pytest.mark.parametrize("make", TRAININGS)
def test_an_explosion_between_two_evaluations_is_seen_and_pauses_leave_no_trace(make):
    """Pauses at every step of an epoch; the states have the same bits in the end."""
    options = {"batch_size": 50, "evaluate_every": 12}
    whole, parts = finish(make(**options)), make(**options)
    assert whole.diverged.tolist() == [12, -1]
    while not parts.finished:
        parts.advance(after(5))
        state = parts.state()
        parts = make(**options)
        parts.restore(state)
    assert_same(whole.state(), parts.state())


def test_growth_from_nearly_nothing_is_measured_against_zero_outputs():
    """f = w x with x = ±1 as its targets and w - 1 = 1e-4, which each step multiplies by -1.5."""
    data = Split(torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0, 9]))
    trained = mlp([2.5], depth=0, data=data, epochs=40)
    trained.restore(trained.state() | {"network.weights.0": np.array([[[1.0001]]])})
    finish(trained)
    grown = 0.5 * (1e-4 * 1.5 ** np.arange(41)) ** 2
    lost = int(np.argmax(grown > trainer.GROWTH * 0.5))
    assert grown[lost - 1] > 1e8 * grown[0]
    np.testing.assert_allclose(trained.metrics["train_loss"][:lost, 0], grown[:lost], rtol=1e-9)
    assert trained.diverged.tolist() == [lost]


DYING = [(partial(mlp, [0.3, 0.001], seed=8, together=each), 1, 53.5) for each in (False, True)]
DYING += [(partial(modules, [10.0, 0.001]), 2, 17.2)]


@pytest.mark.parametrize(("make", "epoch", "peak"), DYING)
def test_networks_that_die_have_diverged_without_growth(make, epoch, peak):
    """Of modules the classifier's biases are left: the outputs are equal, but not zero."""
    trained = finish(make(depth=2, width=8))
    assert trained.diverged.tolist() == [epoch, -1]
    assert trained.state()["peak_loss"][0] == pytest.approx(peak, abs=0.1)


def test_lagging_statistics_and_outputs_that_are_equal_from_the_start_are_no_divergence():
    """Fixup's classifier begins at zero, and the last, a ReLU network, is dead from the start."""
    course = {"batch_size": 50, "momentum": 0.9}
    lagging = modules([1.0], "fc_batch_norm", depth=12, width=16, epochs=4, **course)
    fixup = modules([0.1], "resnet_fixup", depth=8, width=4, epochs=1, batch_size=50)
    dead = mlp([0.3], depth=1, width=2, seed=10)
    for trained in (lagging, fixup, dead):
        assert finish(trained).diverged.tolist() == [-1]
    losses = lagging.metrics["train_loss"][:, 0]  # those of its steps fall
    assert losses.max() > trainer.GROWTH * losses[0]
    assert np.ptp(dead.metrics["train_loss"]) == 0

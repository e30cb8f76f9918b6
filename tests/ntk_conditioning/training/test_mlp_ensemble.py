"""Ensembles have autograd's gradients, members that feel no other, and pauses without a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor, nn
from torch.nn import functional

from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import MLP, forward, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.training import mlp_ensemble
from ntk_conditioning.training.descent import Course
from ntk_conditioning.training.losses import Loss, make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.trainer import Member, Part, StateError
from tests.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

METRICS = Ensemble.METRICS
CROSS_ENTROPY, SQUARE, SCALAR = LOSSES = (
    ("cross_entropy", "classes"),
    ("square", "classes"),
    ("square", "scalar"),
)
#: Two seeds with three rates each.
MEMBERS = tuple(Member(seed, rate) for seed in (1, 5) for rate in (0.05, 0.1, 0.2))
DIVERGES = Member(5, 1e6)
#: With which it does within two epochs; a ReLU network may die instead.
DIVERGENT: dict[str, Any] = {"loss": SQUARE, "activation": "leaky_relu-0.2"}
#: Sizes that fill no block of a matrix product, so that a BLAS has edges to treat.
UNEVEN: dict[str, Any] = {"n": 50, "d": 5, "width": 33, "batch_size": 17, "epochs": 4}

both_ways = pytest.mark.parametrize("together", [False, True])
every_loss = pytest.mark.parametrize("kind", LOSSES, ids="-".join)


def part(
    seed: int, n: int, d: int = 3, classes: int = 3, dtype: torch.dtype = torch.double
) -> Part:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal((n, d))).to(dtype)
    return Part(x, torch.from_numpy(rng.permutation(n) % classes))


def make(
    members: Sequence[Member] = MEMBERS,
    *,
    n: int = 10,
    d: int = 3,
    classes: int = 3,
    depth: int = 2,
    width: int = 7,
    activation: str | Activation = "relu",
    loss: tuple[Any, Any] = CROSS_ENTROPY,
    dtype: torch.dtype = torch.float64,
    tested: bool = True,
    together: bool = False,
    **course: Any,
) -> Ensemble:
    """Return an ensemble whose seeds have samples of their own, and as many to be tested on."""
    seeds = {member.seed for member in members}
    sigma = activations.get(activation) if isinstance(activation, str) else activation
    test = {seed: part(100 + seed, n + 1, d, classes, dtype) for seed in seeds}
    return Ensemble(
        Architecture(depth, width, sigma),
        make_loss(loss[0], outputs=loss[1], classes=classes, dtype=dtype),
        members,
        {seed: part(seed, n, d, classes, dtype) for seed in seeds},
        test if tested else None,
        course=Course(**{"epochs": 3, "batch_size": 4} | course),
        together=together,
    )


def weights(ensemble: Ensemble) -> list[Tensor]:
    return [torch.from_numpy(w) for name, w in ensemble.state().items() if "weights_" in name]


# --- gradients ------------------------------------------------------------------------------------


def gain(sigma: Callable[[float], float]) -> float:
    """Return 1 / sqrt(E sigma(z)²) for z ~ N(0, 1), by SciPy's quadrature."""
    density = 1 / math.sqrt(2 * math.pi)
    square, _ = quad(
        lambda z: density * math.exp(-z * z / 2) * sigma(z) ** 2,
        *(-12, 12),
        epsabs=0,
        epsrel=1e-13,
        limit=200,
    )
    return 1 / math.sqrt(square)


#: A slope below 0 hides the sign of z in sigma(z), so that z itself has to be kept.
VEE = activations.leaky_relu(-0.5, name="vee")
#: What the functions return may be z itself, which must not be changed.
HALF_SQUARE = Activation("half_square", lambda z: z.square() / 2, lambda z: z)
ITSELF = Activation("itself", lambda z: z, lambda z: z.new_ones(z.shape))
#: By the project's name, or of a user: torch's own function and the gain.
ACTIVATIONS: dict[str | Activation, tuple[Callable[[Tensor], Tensor], float]] = {
    "relu": (torch.relu, math.sqrt(2)),
    "leaky_relu-0.2": (lambda z: functional.leaky_relu(z, 0.2), math.sqrt(2 / 1.04)),
    "linear": (lambda z: z, 1.0),
    "tanh": (torch.tanh, gain(math.tanh)),
    "gelu": (functional.gelu, gain(lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2)),
    VEE: (lambda z: functional.leaky_relu(z, -0.5), VEE.gain),
    HALF_SQUARE: (lambda z: z.square() / 2, HALF_SQUARE.gain),
    ITSELF: (lambda z: z, ITSELF.gain),
}


class Plain(nn.Module):
    """liu2023relu, Eq. (1), as one writes it for automatic differentiation."""

    def __init__(self, activation: str | Activation, weights: Iterable[Tensor]) -> None:
        super().__init__()
        self.sigma, self.gain = ACTIVATIONS[activation]
        self.matrices = nn.ParameterList(nn.Parameter(w.clone()) for w in weights)

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.matrices
        for w in hidden:
            x = self.gain / math.sqrt(len(w)) * self.sigma(functional.linear(x, w))
        return functional.linear(x, last)


def plain_loss(kind: tuple[str, str], f: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss of a batch with three classes."""
    if kind == CROSS_ENTROPY:
        return functional.cross_entropy(f, labels)
    target = functional.one_hot(labels, 3).to(f)
    if kind == SCALAR:
        target = torch.linspace(-1, 1, 3, dtype=f.dtype)[labels][:, None]
    return (f - target).square().sum(1).mean() / 2


def plain_gradient(plain: Plain, kind: Any, data: Part, rows: Any = slice(None)) -> list[Tensor]:
    loss = plain_loss(kind, plain(data.x[rows]), data.y[rows])
    return [*torch.autograd.grad(loss, list(plain.matrices))]


def norm(gradient: Iterable[Tensor]) -> float:
    return math.sqrt(sum(g.square().sum().item() for g in gradient))


@every_loss
@pytest.mark.parametrize(
    ("activation", "depth"),
    [(sigma, k) for sigma in ACTIVATIONS for k in (0, 1, 3)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_step_goes_along_the_gradient_of_autograd(activation, depth, kind):
    """Both steps of an epoch, of four samples and of the three that are left.

    The rate is low, for a network of squares explodes, and a power of 2, which rounds nothing.
    The difference is below 1e-12 of the gradient: thousands of roundings in float64.
    """
    rate = 2**-4
    ensemble = make([Member(1, rate)], n=7, depth=depth, activation=activation, loss=kind, epochs=1)
    data, order = part(1, 7), generator(1, "batch", 1).permutation(7)
    assert ensemble.advance()
    for here in (order[:4], order[4:]):
        before = [w[0] for w in weights(ensemble)]
        assert ensemble.advance(after(1)) == (len(here) == 3)
        moved = [(b - w[0]) / rate for b, w in zip(before, weights(ensemble), strict=True)]
        expected = plain_gradient(Plain(activation, before), kind, data, here)
        assert [g.shape for g in moved] == [g.shape for g in expected]
        differences = [g - h for g, h in zip(moved, expected, strict=True)]
        assert norm(differences) < 1e-12 * norm(expected)
    size = ensemble.metrics["gradient_norm"]
    assert math.isnan(size[0, 0])
    assert size[1, 0] == pytest.approx(norm(expected), abs=0, rel=1e-12)


@both_ways
def test_the_gradients_norm_is_that_of_the_loss_whatever_the_rate(together):
    """Of the epoch's last batch, at the weights before its step."""
    members = [Member(seed, rate) for seed in (1, 5) for rate in (0.01, 0.25, 3.0)]
    ensemble = make(members, batch_size="all", epochs=1, together=together)
    start = weights(ensemble)
    norms = finish(ensemble).metrics["gradient_norm"][1]
    for number, member in enumerate(members):
        plain = Plain("relu", [w[number] for w in start])
        expected = norm(plain_gradient(plain, CROSS_ENTROPY, part(member.seed, 10)))
        assert norms[number] == pytest.approx(expected, abs=0, rel=1e-12)


@every_loss
@both_ways
def test_metrics_are_those_of_the_networks_at_an_epochs_end(kind, together):
    """Within 1e-12: autograd's network multiplies its scales in another order."""
    ensemble = finish(make(loss=kind, together=together))
    for number, member in enumerate(MEMBERS):
        plain = Plain("relu", [w[number] for w in weights(ensemble)])
        for name, data in (("train", part(member.seed, 10)), ("test", part(100 + member.seed, 11))):
            f = plain(data.x).detach()
            loss = plain_loss(kind, f, data.y).item()
            nearest = (f - torch.tensor([-1, 0, 1])).abs().argmin(1)
            right = ((nearest if kind == SCALAR else f.argmax(1)) == data.y).double().mean().item()
            last = {key: values[-1, number] for key, values in ensemble.metrics.items()}
            assert last[f"{name}_loss"] == pytest.approx(loss, abs=0, rel=1e-12)
            assert last[f"{name}_accuracy"] == pytest.approx(right, abs=0, rel=1e-15)


@both_ways
def test_samples_are_evaluated_in_parts_and_only_when_asked(monkeypatch, together):
    """Within 1e-14: the sum of ten losses in another order."""
    often = finish(make(epochs=5, together=together))
    monkeypatch.setattr(mlp_ensemble, "EVALUATED", 4)
    seldom = finish(make(epochs=5, evaluate_every=2, together=together))
    measured = [0, 2, 4, 5]
    for name in METRICS:
        found, expected = seldom.metrics[name], often.metrics[name]
        np.testing.assert_allclose(found[measured], expected[measured], rtol=1e-14, atol=0)
        known = range(1, 6) if name == "gradient_norm" else measured
        assert np.flatnonzero(np.isfinite(found).all(axis=1)).tolist() == [*known]


def test_without_a_test_set_its_metrics_are_missing():
    whole, bare = finish(make()), finish(make(tested=False))
    for name in METRICS:
        expected = np.full((4, 6), np.nan) if "test" in name else whole.metrics[name]
        np.testing.assert_array_equal(bare.metrics[name], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_begin_with_the_weights_of_their_seed(dtype):
    """Those of `init_mlp` but for the outputs, drawn in float64 and then rounded."""
    begun = weights(make(dtype=dtype))
    for number, member in enumerate(MEMBERS):
        init = generator(member.seed, "init")
        mlp = init_mlp(3, depth=2, width=7, activation="relu", generator=init)
        for found, expected in zip(begun[:-1], mlp.weights, strict=False):
            assert torch.equal(found[number], expected.to(dtype))
    assert begun[-1].shape == (6, 3, 7)


@pytest.mark.parametrize(("activation", "depth"), [("relu", 2), ("linear", 2), ("tanh", 0)])
def test_training_leaves_the_samples_as_they_are(activation, depth):
    data, before = part(1, 10), part(1, 10)
    architecture = Architecture(depth, 7, activations.get(activation))
    loss = make_loss("square", outputs="classes", classes=3, dtype=torch.float64)
    finish(Ensemble(architecture, loss, MEMBERS[:1], {1: data}, course=Course(epochs=2)))
    assert torch.equal(data.x, before.x)
    assert torch.equal(data.y, before.y)


# --- members by themselves ------------------------------------------------------------------------


def pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


@pytest.mark.parametrize(("threads", "dtype"), [(1, torch.float64), (2, torch.float32)])
def test_a_member_alone_has_the_same_curves(threads, dtype):
    with pool(threads) as workers:
        every = finish(make(**UNEVEN, dtype=dtype), workers.map)
    assert np.isfinite(every.metrics["train_loss"]).all()
    for number, member in enumerate(MEMBERS):
        alone = finish(make([member], **UNEVEN, dtype=dtype))
        for name in METRICS:
            np.testing.assert_array_equal(alone.metrics[name][:, 0], every.metrics[name][:, number])
        for one, other in zip(weights(alone), weights(every), strict=True):
            assert torch.equal(one[0], other[number])


@pytest.mark.parametrize(
    # Rounding in every step, and steps that spread it: some hundred times the type's own.
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-4)],
)
@every_loss
def test_products_together_are_near_to_separate_ones(kind, dtype, tolerance):
    slow = MEMBERS[:1] + MEMBERS[3:4]  # a rate at which every loss falls
    separate, together = (
        finish(make(slow, **UNEVEN, loss=kind, dtype=dtype, together=how)) for how in (False, True)
    )
    for name in METRICS:
        exact, near = separate.metrics[name], together.metrics[name]
        if name.endswith("accuracy"):  # a sample on the border may be taken for another class
            np.testing.assert_allclose(near, exact, rtol=0, atol=1.01 / 50)
        else:
            np.testing.assert_allclose(near, exact, rtol=tolerance, err_msg=name)
    for one, other in zip(weights(separate), weights(together), strict=True):
        assert (one - other).norm() < tolerance * one.norm()


@both_ways
@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_member_that_diverges_is_flagged_and_touches_no_other(place, together):
    members = [*MEMBERS[:place], DIVERGES, *MEMBERS[place:]]
    others = [k for k in range(7) if k != place]
    options = {**UNEVEN, **DIVERGENT, "together": together}
    found, without = finish(make(members, **options)), finish(make(MEMBERS, **options))
    assert found.diverged[others].tolist() == [-1] * 6
    epoch = found.diverged[place]
    assert epoch > 0
    for name in METRICS:
        lost = found.metrics[name][:, place]
        assert np.isnan(lost[epoch:]).all()
        assert np.isfinite(lost[1:epoch]).all()
        # Together, a batch of another size may be summed in another order.
        rtol = 1e-11 if together else 0
        kept = found.metrics[name][:, others]
        np.testing.assert_allclose(kept, without.metrics[name], rtol=rtol, atol=0)
    assert [len(w) for w in weights(found)] == [6, 6, 6]


@both_ways
def test_training_ends_when_all_have_diverged(together):
    both = [Member(1, 1e6), DIVERGES]
    ensemble = finish(make(both, **DIVERGENT, epochs=50, together=together))
    assert (ensemble.diverged > 0).all()
    assert ensemble.epoch == ensemble.diverged.max() + 1 < 50
    assert np.isnan(ensemble.metrics["train_loss"][ensemble.epoch :]).all()
    again = make(both, **DIVERGENT, epochs=50, together=together)
    again.restore(ensemble.state())
    assert again.finished
    assert_same(again.state(), ensemble.state())


# --- pauses ---------------------------------------------------------------------------------------


def through_an_archive(state: Mapping[str, Any], path: Any) -> dict[str, Any]:
    np.savez(path, **state)
    with np.load(path) as archive:
        return dict(archive)


@both_ways
def test_a_pause_after_any_step_leaves_no_trace(tmp_path, together):
    """Three steps an epoch: in its midst, at its ends, in members that are ahead of others."""
    members = [*MEMBERS[:4], DIVERGES]
    options: dict[str, Any] = {"together": together, "dtype": torch.float32, **DIVERGENT}
    whole = finish(make(members, **options))
    assert 0 < whole.diverged[-1] < 3  # there are pauses before and after
    for k in range(0, 9 if together else 9 * 4, 1 if together else 3):
        paused, still = make(members, **options), after(k)
        while paused.advance(still):
            pass
        assert not paused.finished
        state = paused.state()
        fresh = make(members, **options)
        fresh.restore(through_an_archive(state, tmp_path / "state.npz"))
        assert_same(fresh.state(), paused.state())
        assert_same(finish(fresh).state(), whole.state())
        again = make(members, **options)
        again.restore(state)  # a copy, which `paused` does not change when it goes on itself
        assert_same(finish(paused).state(), finish(again).state())


def test_a_pause_in_threads_leaves_no_trace():
    """Which member is how far depends on chance; the result does not."""
    whole = finish(make())
    for k in (1, 10, 30):
        with pool(2) as workers:
            paused, still = make(), after(k)
            while paused.advance(still, workers.map):
                pass
            fresh = make()
            fresh.restore(paused.state())
            assert_same(finish(fresh, workers.map).state(), whole.state())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"members": MEMBERS[:5]}, "its steps is not (6,)"),
        ({"epochs": 4}, "its train_loss is not (4, 6)"),
        ({"d": 4}, "its weights_0 is not (6, 7, 3)"),
        ({"classes": 4}, "its weights_2 is not (6, 3, 7)"),
        ({"depth": 1}, "its weights_1 is not (6, 7, 7)"),
        ({"depth": 3, "classes": 7}, "this one has no weights_3"),
    ],
    ids=str,
)
def test_a_state_of_another_ensemble_is_refused(options, problem):
    other = make(**options)
    other.advance()
    ensemble = make(classes=7) if "this one" in problem else make()
    before = ensemble.state()
    with pytest.raises(StateError, match=re.escape(f"a state of another ensemble: {problem}")):
        ensemble.restore(other.state())
    assert_same(ensemble.state(), before)  # nothing was taken from it


# --- the order of samples -------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorder(Loss):
    """A loss without slope that writes down which labels each step takes."""

    taken: list[Any]

    def values(self, f: Tensor, labels: Tensor) -> Tensor:
        return f.new_zeros(labels.shape)

    def gradient(self, f: Tensor, labels: Tensor) -> Tensor:
        self.taken.append(labels.tolist())
        return torch.zeros_like(f)


def taken(members: Sequence[Member], *, n: int, batch_size: Any) -> list[Any]:
    """Return the samples, by number, of every step of two epochs."""
    recorder, data = Recorder(torch.eye(n), []), Part(torch.ones(n, 2), torch.arange(n))
    ensemble = Ensemble(
        Architecture(1, 2, activations.get("relu")),
        recorder,
        members,
        dict.fromkeys([member.seed for member in members], data),
        course=Course(epochs=2, batch_size=batch_size),
        together=len(members) > 1,
    )
    finish(ensemble)
    return recorder.taken


@pytest.mark.parametrize(
    ("n", "batch_size", "sizes"), [(10, 4, [4, 4, 2]), (10, 5, [5, 5]), (3, 1, [1] * 3)]
)
def test_an_epoch_takes_every_sample_once(n, batch_size, sizes):
    steps = taken([Member(1, 0.1)], n=n, batch_size=batch_size)
    assert [len(step) for step in steps] == sizes * 2
    first, second = ([*chain(*half)] for half in (steps[: len(sizes)], steps[len(sizes) :]))
    assert sorted(first) == sorted(second) == list(range(n))
    assert first != second
    assert first == generator(1, "batch", 1).permutation(n).tolist()


@pytest.mark.parametrize("batch_size", [10, 11, 500, "all"])
def test_a_batch_of_all_samples_takes_them_as_they_are(batch_size):
    assert taken([Member(1, 0.1)], n=10, batch_size=batch_size) == [list(range(10))] * 2


def test_seeds_have_orders_of_their_own_and_rates_share_them():
    members = [Member(seed, rate) for seed in (1, 2) for rate in (0.1, 0.2)]
    for step in taken(members, n=10, batch_size=4):
        assert step[0] == step[1] != step[2] == step[3]


# --- what theory says of training -----------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 17])
@every_loss
def test_any_number_of_classes_is_learnt(classes, kind):
    """As many samples as classes, in more dimensions: they can be told apart."""
    sizes = {"n": 17, "d": 20, "classes": classes, "width": 64}
    course = {"epochs": 200, "batch_size": "all", "evaluate_every": 200}
    metrics = finish(make([Member(1, 0.1)], **sizes, loss=kind, **course)).metrics
    assert metrics["train_accuracy"][-1].tolist() == [1]
    assert metrics["train_loss"][-1] < 0.2 * metrics["train_loss"][0]


def unit(n: int, d: int) -> Tensor:
    x = np.random.default_rng(5).standard_normal((n, d))
    return torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class FullDescent:
    """Gradient descent on the mean square loss of one output, at a step of 1/lambda_max."""

    ensemble: Ensemble
    k: Tensor
    residual: Tensor
    rate: float


def full_descent(
    activation: str, *, depth: int, width: int, n: int, d: int, epochs: int
) -> FullDescent:
    x, y = unit(n, d), torch.arange(n) % 2
    init = generator(1, "init")
    mlp = init_mlp(d, depth=depth, width=width, activation=activation, generator=init)
    k = empirical.ntk(mlp, x)
    rate = n / torch.linalg.eigvalsh(k)[-1].item()
    ensemble = Ensemble(
        Architecture(depth, width, mlp.activation),
        make_loss("square", outputs="scalar", classes=2, dtype=torch.float64),
        [Member(1, rate)],
        {1: Part(x, y)},
        course=Course(epochs=epochs),
    )
    return FullDescent(finish(ensemble), k, forward(mlp, x) - (2 * y - 1), rate)


@pytest.mark.parametrize(
    # The error of linearising, as measured for this seed after three steps and relative to how far
    # the outputs have moved: 0.00037 for tanh and 0.0061 for relu; of the loss 0.00045 and 0.017.
    # For comparison: a step that is 1 % too large moves the outputs of tanh by 0.0047.
    ("activation", "width", "tolerance"),
    [("tanh", 4096, 5e-4), ("relu", 1024, 1e-2)],
)
def test_linearised_dynamics_predict_the_first_steps(activation, width, tolerance):
    """f_t - y = (I - eta K / n)^t (f_0 - y)."""
    n = 16
    found = full_descent(activation, depth=2, width=width, n=n, d=8, epochs=3)
    residual = found.residual
    for loss in found.ensemble.metrics["train_loss"][:, 0]:
        assert loss == pytest.approx((residual @ residual).item() / (2 * n), rel=2 * tolerance)
        before, residual = residual, residual - found.rate / n * (found.k @ residual)
    sigma = activations.get(activation)
    trained = forward(MLP(tuple(w[0] for w in weights(found.ensemble)), sigma), unit(n, 8))
    moved = trained - (2 * (torch.arange(n) % 2) - 1) - found.residual
    expected = before - found.residual
    assert expected.norm() > 0.5 * found.residual.norm()  # which is no small step
    assert (moved - expected).norm() < tolerance * expected.norm()


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_gradient_descent_is_as_fast_as_the_condition_number_says(activation):
    """liu2023relu, Eq. (13), at a step of 1/lambda_max: L_t <= (1 - 1/kappa)^t L_0."""
    found = full_descent(activation, depth=1, width=1024, n=4, d=16, epochs=60)
    kappa = conditioning(found.k.numpy()).kappa
    assert kappa is not None
    losses = found.ensemble.metrics["train_loss"][:, 0]
    bounds = (1 - 1 / kappa) ** np.arange(61) * losses[0]
    assert (losses[1:] < bounds[1:]).all()
    assert bounds[-1] < 1e-3 * losses[0]  # the bound says something
    # In the end the slowest direction is left: residuals shrink by 1 - 1/kappa and the loss by the
    # square of that, but for the kernel's change since the beginning (measured: 0.45 %).
    for loss, next_loss in pairwise(losses[40:]):
        assert next_loss / loss == pytest.approx((1 - 1 / kappa) ** 2, rel=1e-2)

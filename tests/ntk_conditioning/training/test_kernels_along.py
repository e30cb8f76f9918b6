"""Kernels and sharpness along training, against slow ways, and without a trace in the training."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.func import functional_call, jacrev

from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.networks.statistics import freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.training import tangents
from ntk_conditioning.training.descent import Along, Course, Descent
from ntk_conditioning.training.kernels_along import (
    ALONG,
    kernel_numbers,
    module_kernel,
    sharpness,
    smallest_angle,
)
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.tangents import Architecture, mlp_kernel
from ntk_conditioning.training.trainer import Member, Part
from tests.ntk_conditioning.references import plain_losses
from tests.support.trainings import after, assert_same, finish

pytestmark = pytest.mark.usefixtures("one_thread")

MEMBERS = tuple(Member(seed, rate) for seed in (1, 5) for rate in (0.1, 0.4))
IMAGE, N, BLOCK = (2, 3, 2), 14, 9
LOSS = "cross_entropy", "classes"


def parts() -> dict[int, Part]:
    rng = np.random.default_rng(2)
    draws = {seed: torch.from_numpy(rng.standard_normal((N, 12))) for seed in (1, 5)}
    return {seed: Part(x, torch.arange(N) % 3) for seed, x in draws.items()}


def block(seed: int, part: Part) -> Part:
    rows = generator(seed, "blocks").permutation(N)[:BLOCK]
    return Part(part.x[rows], part.y[rows])


def networks(name: str):
    size = {"d": 12, "image": IMAGE, "depth": 4 if name.startswith("resnet") else 2, "width": 3}
    tanh = activations.get("tanh")
    return partial(make_network, name, **size, activation=tanh, outputs=3, dtype=torch.float64)


def make(kind="mlp", *, along: Along | None = None, members=MEMBERS, epochs=6, **options):
    loss = make_loss(*LOSS[:1], outputs=LOSS[1], classes=3, dtype=torch.float64)
    given = {seed: part for seed, part in parts().items() if seed in {m.seed for m in members}}
    course = {"epochs": epochs, "batch_size": 5}
    if kind == "mlp":
        tanh = Architecture(2, 6, activations.get("tanh"))
        ensemble = Ensemble(tanh, loss, members, given, course=Course(**course), **options)
    else:
        if kind.startswith("resnet"):
            images = {s: part.x.reshape(N, *IMAGE).movedim(-1, 1) for s, part in given.items()}
            given = {seed: Part(x, given[seed].y) for seed, x in images.items()}
        descent = Descent(**course, momentum=0.5)
        ensemble = ModuleEnsemble(networks(kind), loss, members, given, descent=descent)
    if along:
        ensemble.measure_along(along)
    return ensemble


def mean_kernel(weights, activation, x) -> Tensor:
    """Return the mean over outputs of the kernels of `kernels.empirical`."""
    *inner, last = weights
    each = [empirical.ntk(MLP((*inner, row[None]), activation), x) for row in last]
    return torch.stack(each).mean(0)


@pytest.mark.parametrize("name", ["relu", "tanh", "normalized_relu", "linear"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_kernel_is_the_mean_of_those_of_the_outputs(monkeypatch, name, depth):
    monkeypatch.setattr(tangents, "ENTRIES", 2 * 8 * 6)  # two outputs at a time
    rng, sizes = np.random.default_rng(depth), [4, *[6] * depth, 5]
    weights = [torch.from_numpy(rng.standard_normal(s[::-1])) for s in pairwise(sizes)]
    x, activation = torch.from_numpy(rng.standard_normal((8, 4))), activations.get(name)
    expected = mean_kernel(weights, activation, x)
    kernel = mlp_kernel(weights, activation, x)
    torch.testing.assert_close(kernel, expected, rtol=1e-12, atol=1e-12)


def explicit(network, x) -> Tensor:
    """Return the gradients (n, c, p) of a network, each times the root of its rate's factor."""
    given = {name: p.detach() for name, p in network.named_parameters()}
    factor = {id(p): f for f, group in network.rate_groups().items() for p in group}
    found = jacrev(lambda of: functional_call(network, of, x)[0])(given)
    roots = {name: factor[id(p)] ** 0.5 for name, p in network.named_parameters()}
    return torch.cat(
        [roots[name] * each.reshape(*each.shape[:2], -1) for name, each in found.items()], dim=2
    )


@pytest.mark.parametrize("kind", ["fc_batch_norm", "resnet_fixup", "mlp_bias"])
def test_measurements_of_modules_are_those_of_explicit_gradients_and_hessians(kind):
    """Of Fixup some parameters learn at a tenth of the rate; batch norms see the block."""
    ensemble = make(kind, along=Along(samples=BLOCK, points=3), members=MEMBERS[:1])
    finish(ensemble)
    (group,) = ensemble._groups
    data = block(1, ensemble._train[1])
    network = networks(kind)(generator(1, "init"))
    network.load_state_dict(group.network.state_dict())
    freeze_statistics(network, data.x)
    rows = explicit(network, data.x)
    expected = torch.einsum("iap,jap->ij", rows, rows) / 3
    torch.testing.assert_close(module_kernel(network, data.x), expected, rtol=1e-10, atol=1e-10)
    assert ensemble.metrics["kappa"][-1, 0] == pytest.approx(
        conditioning(expected.numpy()).kappa, rel=1e-6
    )

    names = [name for name, _ in network.named_parameters()]
    sizes = [p.numel() for p in network.parameters()]
    flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])

    def loss(vector: Tensor) -> Tensor:
        shapes = [p.shape for p in network.parameters()]
        pieces = zip(names, vector.split(sizes), shapes, strict=True)
        f = functional_call(network, {n: v.view(s) for n, v, s in pieces}, data.x)[0]
        return plain_losses(LOSS, f, data.y).mean()

    factor = {id(p): f for f, group in network.rate_groups().items() for p in group}
    roots = torch.cat([torch.full((p.numel(),), factor[id(p)]) for p in network.parameters()])
    dense = hessian(loss, flat) * roots.sqrt()[:, None] * roots.sqrt()
    largest = torch.linalg.eigvalsh(dense)[-1].item()
    assert ensemble.metrics["sharpness"][-1, 0] == pytest.approx(largest, rel=1e-3)


def test_parameters_that_do_not_train_count_for_nothing():
    network = networks("mlp_bias")(generator(1, "init"))
    x, y = torch.randn(5, 12, dtype=torch.float64), torch.arange(5) % 3
    rest = explicit(network, x)
    first = next(network.parameters())
    k = (
        module_kernel(network, x)
        - torch.einsum("iap,jap->ij", *[rest[..., : first.numel()]] * 2) / 3
    )
    first.requires_grad_(False)
    torch.testing.assert_close(module_kernel(network, x), k, rtol=1e-10, atol=1e-10)
    assert all(first is not p for group in network.rate_groups().values() for p in group)
    loss = make_loss(*LOSS[:1], outputs=LOSS[1], classes=3, dtype=torch.float64)
    train = {1: Part(x, y)}
    descent = Descent(epochs=1, batch_size=5)
    frozen = ModuleEnsemble(lambda _: network, loss, MEMBERS[:1], train, descent=descent)
    frozen.measure_along(Along(samples=BLOCK, points=2))
    before = first.clone()
    finish(frozen)
    assert torch.equal(first, before)
    assert np.isfinite(frozen.metrics["sharpness"]).all()


@pytest.mark.parametrize("together", [False, True])
def test_measurements_of_mlps_are_those_of_their_weights(together):
    ensemble = make(along=Along(samples=BLOCK, points=4), together=together)
    tanh, initial = activations.get("tanh"), {}
    assert ensemble.measured == [0, 1, 2, 6]
    while not ensemble.finished:
        ensemble.advance()
        epoch, state = ensemble.epoch - 1, ensemble.state()
        for number, member in enumerate(MEMBERS):
            values = [ensemble.metrics[name][epoch, number] for name in ALONG]
            if epoch not in (0, 1, 2, 6):
                assert np.isnan(values).all()
                continue
            weights = [torch.from_numpy(state[f"weights_{k}"][number]) for k in range(3)]
            data = block(member.seed, parts()[member.seed])
            k = mean_kernel(weights, tanh, data.x).numpy()
            first = initial.setdefault(member.seed, k)
            found = conditioning(k)
            codes = np.eye(3)[data.y]
            centre = np.eye(BLOCK) - 1 / BLOCK
            kc, yc = centre @ k @ centre, centre @ codes @ codes.T @ centre
            unit = np.sqrt(np.outer(k.diagonal(), k.diagonal()))
            angles = np.degrees(np.arccos((k / unit)[~np.eye(BLOCK, dtype=bool)]))
            expected = [found.kappa, found.lambda_max, found.lambda_min, found.effective_rank]
            expected += [np.sum(kc * yc) / np.linalg.norm(kc) / np.linalg.norm(yc)]
            expected += [np.linalg.norm(k - first) / np.linalg.norm(first), angles.min()]
            np.testing.assert_allclose(values[:-1], expected, rtol=1e-8, atol=1e-12)

            def loss(vector: Tensor, x=data.x, y=data.y, weights=weights) -> Tensor:
                pieces = vector.split([w.numel() for w in weights])
                for k, (w, piece) in enumerate(zip(weights, pieces, strict=True)):
                    z = x @ piece.view_as(w).T
                    x = tanh.gain / len(w) ** 0.5 * torch.tanh(z) if k < 2 else z
                return plain_losses(LOSS, x, y).mean()

            dense = hessian(loss, torch.cat([w.reshape(-1) for w in weights]))
            largest = torch.linalg.eigvalsh(dense)[-1].item()
            # the square of the tolerance times the eigenvalue over the gap, of these networks
            assert values[-1] == pytest.approx(largest, rel=1e-3)


@pytest.mark.parametrize("kind", ["mlp", "fc_batch_norm"])
def test_measuring_leaves_no_trace_in_the_training_and_pauses_none_in_it(kind):
    """A paused training goes on from its state alone, with kernels at initialisation made anew."""
    usual = finish(make(kind))
    along = Along(samples=BLOCK, points=4)
    measured = finish(make(kind, along=along))
    assert usual.state().keys() == measured.state().keys() - {*ALONG}
    assert_same(usual.state(), {name: measured.state()[name] for name in usual.state()})
    state = make(kind, along=along).state()
    for _ in range(100):
        paused = make(kind, along=along)
        paused.restore(state)
        paused.advance(after(1))
        state = paused.state()
        if paused.finished:
            break
    assert_same(state, measured.state())


def test_a_network_that_diverges_is_measured_no_more():
    members = (Member(1, 0.1), Member(1, 1e6))
    ensemble = finish(make(along=Along(samples=BLOCK, points=4), members=members))
    assert ensemble.diverged.tolist()[0] == -1 < ensemble.diverged[1]
    late = ensemble.metrics["kernel_change"][ensemble.diverged[1] :, 1]
    assert np.isnan(late).all()
    assert not np.isnan(ensemble.metrics["kernel_change"][-1, 0])


def test_what_a_kernel_cannot_tell_is_missing():
    ones, codes = np.ones((3, 3)), np.eye(3)
    numbers = kernel_numbers(ones, ones, codes)
    assert np.isnan([numbers["kappa"], numbers["lambda_min"], numbers["alignment"]]).all()
    assert (numbers["lambda_max"], numbers["kernel_change"]) == (pytest.approx(3), 0)
    assert all(np.isnan([*kernel_numbers(np.zeros((3, 3)), ones, codes).values()]))
    assert smallest_angle(ones) == 0
    assert np.isnan(smallest_angle(np.diag([1.0, 0.0])))


def test_a_loss_without_curvature_has_none():
    w = torch.zeros(20, dtype=torch.float64, requires_grad=True)
    assert sharpness(w.sum, [w], start=np.random.default_rng(1)) == pytest.approx(0, abs=1e-12)

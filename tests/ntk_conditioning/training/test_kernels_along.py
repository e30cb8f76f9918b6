"""Kernels and sharpness along training, against slow ways, and without a trace in the training."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.func import functional_call

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.statistics import freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.training.kernels_along import (
    ALONG,
    kernel_numbers,
    module_kernel,
    sharpness,
)
from ntk_conditioning.training.mlp_ensemble import Architecture, MlpModule
from ntk_conditioning.training.trainer import NetworkSpec, Split
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import CROSS_ENTROPY, ensemble, jacobian, networks
from tests.support.trainings import finish

pytestmark = pytest.mark.usefixtures("one_thread")

MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.1, 0.4))
IMAGE, N, BLOCK = (2, 3, 2), 14, 9
ARCHITECTURE = Architecture(2, 6, activations.get("tanh"))


def block(trained, seed: int) -> Split:
    rows = generator(seed, "blocks").permutation(N)[:BLOCK]
    return Split(*(t[rows] for t in trained._train[seed]))


def network(name: str):
    size = {"image": IMAGE, "depth": 4 if name.startswith("resnet") else 2, "width": 3}
    return networks(name, **size, activation="tanh")


def make(kind="mlp", *, members=MEMBERS, epochs=6, **options):
    shape = (2, 2, 3) if kind.startswith("resnet") else (12,)
    options |= {"epochs": epochs, "batch_size": 5, "momentum": 0.5}
    made = ARCHITECTURE if kind == "mlp" else network(kind)
    return ensemble(made, members, n=N, shape=shape, **options)


@pytest.mark.parametrize("kind", ["fc_batch_norm", "resnet_fixup", "frozen", "tied"])
def test_measurements_of_modules_are_those_of_explicit_gradients_and_hessians(kind):
    """Of Fixup some parameters learn at a tenth of the rate; batch norms see the block.

    Parameters that do not train count for nothing.
    """
    trained = make(kind, along=(BLOCK, 3), members=MEMBERS[:1])
    model, data = network(kind)(generator(1, "init")), block(trained, 1)
    first = next(model.parameters()).clone()
    finish(trained)
    (group,) = trained._groups
    model.load_state_dict(group.network.state_dict())
    assert torch.equal(first, next(model.parameters())) == (kind == "frozen")
    freeze_statistics(model, data.x)
    names, rows, factors = jacobian(model, data.x)
    expected = torch.einsum("iap,jap,p->ij", rows, rows, factors) / 3
    torch.testing.assert_close(module_kernel(model, data.x), expected, rtol=1e-10, atol=1e-10)
    kappa = conditioning(expected.numpy()).kappa
    assert trained.metrics["kappa"][-1, 0] == pytest.approx(kappa, rel=1e-6)
    parameters = [dict(model.named_parameters())[name].detach() for name in names]

    def loss(vector: Tensor) -> Tensor:
        pieces = vector.split([p.numel() for p in parameters])
        weights = {n: v.view(p.shape) for n, v, p in zip(names, pieces, parameters, strict=True)}
        return plain_losses(
            CROSS_ENTROPY, functional_call(model, weights, data.x)[0], data.y
        ).mean()

    dense = hessian(loss, torch.cat([p.flatten() for p in parameters]))
    largest = torch.linalg.eigvalsh(dense * factors.sqrt()[:, None] * factors.sqrt())[-1].item()
    assert trained.metrics["sharpness"][-1, 0] == pytest.approx(largest, rel=1e-3)


@pytest.mark.parametrize("together", [False, True])
def test_measurements_of_mlps_are_those_of_their_weights(together):
    trained = make(along=(BLOCK, 4), together=together)
    tanh, initial, centre = activations.get("tanh"), {}, np.eye(BLOCK) - 1 / BLOCK
    assert trained.measured == [0, 1, 2, 6]
    while not trained.finished:
        trained.advance()
        epoch, state = trained.epoch - 1, trained.state()
        for number, member in enumerate(MEMBERS):
            values = [trained.metrics[name][epoch, number] for name in ALONG]
            if epoch not in (0, 1, 2, 6):
                assert np.isnan(values).all()
                continue
            weights = [torch.from_numpy(state[f"weights_{k}"][number]) for k in range(3)]
            data = block(trained, member.seed)
            _, rows, _ = jacobian(MlpModule(weights, tanh), data.x)
            k = torch.einsum("iap,jap->ij", rows, rows).numpy() / 3
            first, spectrum = initial.setdefault(member.seed, k), conditioning(k)
            codes = np.eye(3)[data.y]
            kc, yc = centre @ k @ centre, centre @ codes @ codes.T @ centre
            unit = np.sqrt(np.outer(k.diagonal(), k.diagonal()))
            angles = np.degrees(np.arccos((k / unit)[~np.eye(BLOCK, dtype=bool)]))
            expected = [getattr(spectrum, name) for name in ALONG[:4]]
            expected += [np.sum(kc * yc) / np.linalg.norm(kc) / np.linalg.norm(yc)]
            expected += [np.linalg.norm(k - first) / np.linalg.norm(first), angles.min()]
            np.testing.assert_allclose(values[:-1], expected, rtol=1e-8, atol=1e-12)

            def loss(vector: Tensor, data=data, weights=weights) -> Tensor:
                pieces = vector.split([w.numel() for w in weights])
                a, b, c = (piece.view_as(w) for w, piece in zip(weights, pieces, strict=True))
                scale = tanh.gain / 6**0.5
                z = scale * torch.tanh(scale * torch.tanh(data.x @ a.T) @ b.T) @ c.T
                return plain_losses(CROSS_ENTROPY, z, data.y).mean()

            dense = hessian(loss, torch.cat([w.flatten() for w in weights]))
            largest = torch.linalg.eigvalsh(dense)[-1].item()
            # the square of the tolerance times the eigenvalue over the gap, of these networks
            assert values[-1] == pytest.approx(largest, rel=1e-3)


def test_what_a_kernel_cannot_tell_is_missing():
    ones, codes = np.ones((3, 3)), np.eye(3)
    numbers = kernel_numbers(ones, ones, codes)
    assert np.isnan([numbers["kappa"], numbers["lambda_min"], numbers["alignment"]]).all()
    assert (numbers["lambda_max"], numbers["kernel_change"]) == (pytest.approx(3), 0)
    assert all(np.isnan([*kernel_numbers(np.zeros((3, 3)), ones, codes).values()]))
    assert numbers["min_angle"] == 0
    assert np.isnan(kernel_numbers(np.diag([1.0, 0.0]), ones[:2, :2], codes[:2])["min_angle"])


def test_a_loss_without_curvature_has_none():
    w = torch.zeros(20, dtype=torch.float64, requires_grad=True)
    assert sharpness(w.sum(), {w: 1.0}, start=np.random.default_rng(1)) == pytest.approx(
        0, abs=1e-12
    )

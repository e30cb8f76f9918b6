"""Kernels and sharpness along training, against slow ways, and without a trace in the training."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.func import functional_call

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import MlpModule, freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.training.kernels_along import ALONG, kernel_numbers, sharpness
from ntk_conditioning.training.trainer import NetworkSpec, Split
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import Mlp, ensemble, jacobian, networks, split

pytestmark = pytest.mark.usefixtures("one_thread")

MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.1, 0.4))
N, BLOCK = 14, 9
ARCHITECTURE = Mlp(2, 6, activations.get("tanh"))


def network(name: str):
    depth = 4 if name == "resnet_fixup" else 2
    return networks(name, image=(2, 3, 2), depth=depth, width=3, activation="tanh")


def exact(kind, state, number, x):
    """Return the network of a member, by its state, as it is for samples ``x``."""
    if kind.startswith("mlp"):
        weights = [torch.from_numpy(state[f"network.weights.{k}"][number]) for k in range(3)]
        return MlpModule(weights, ARCHITECTURE.activation)
    model = network(kind)(generator(1, "init"))
    given = {name: state[f"network.{name}"][number] for name in model.state_dict()}
    model.load_state_dict({name: torch.as_tensor(values) for name, values in given.items()})
    freeze_statistics(model, x)
    return model


KINDS = ("mlp", "mlp together", "fc_batch_norm", "resnet_fixup", "frozen", "tied")


@pytest.mark.parametrize("kind", KINDS)
def test_measurements_are_those_of_explicit_gradients_and_hessians(kind):
    """Of Fixup some parameters learn at a tenth of the rate; batch norms see the block.

    Parameters that do not train count for nothing.
    """
    shape = (2, 2, 3) if kind == "resnet_fixup" else (12,)
    options = {"n": N, "shape": shape, "epochs": 6, "batch_size": 5, "momentum": 0.5}
    if kind.startswith("mlp"):
        options |= {"along": (BLOCK, 4), "together": kind == "mlp together"}
        trained = ensemble(ARCHITECTURE, MEMBERS, **options)
    else:
        trained = ensemble(network(kind), MEMBERS[:1], along=(BLOCK, 2), **options)
    initial, centre = {}, np.eye(BLOCK) - 1 / BLOCK
    assert trained.measured == ([0, 1, 2, 6] if kind.startswith("mlp") else [0, 6])
    while not trained.finished:
        trained.advance()
        epoch, state = trained.epoch - 1, trained.state()
        for number, member in enumerate(trained.members):
            values = [trained.metrics[name][epoch, number] for name in ALONG]
            if epoch not in trained.measured:
                assert np.isnan(values).all()
                continue
            chosen = generator(member.seed, "blocks").permutation(N)[:BLOCK]
            data = Split(*(t[chosen] for t in split(member.seed, N, *shape)))
            model = exact(kind, state, number, data.x)
            weights, rows, factors = jacobian(model, data.x)
            k = torch.einsum("iap,jap,p->ij", rows, rows, factors).numpy() / 3
            first, first_model = initial.setdefault(member.seed, (k, model))
            spectrum, codes = conditioning(k), np.eye(3)[data.y]
            kc, yc = centre @ k @ centre, centre @ codes @ codes.T @ centre
            unit = np.sqrt(np.outer(k.diagonal(), k.diagonal()))
            angles = np.degrees(np.arccos((k / unit)[~np.eye(BLOCK, dtype=bool)]))
            expected = [getattr(spectrum, name) for name in ALONG[:4]]
            if spectrum.kappa is None:  # with it lambda_min is missing
                expected[0] = expected[2] = np.nan
            expected += [np.sum(kc * yc) / np.linalg.norm(kc) / np.linalg.norm(yc)]
            expected += [np.linalg.norm(k - first) / np.linalg.norm(first), angles.min()]
            np.testing.assert_allclose(values[:-1], expected, rtol=1e-8, atol=1e-12)

            def loss(vector: Tensor, model=model, data=data, weights=weights) -> Tensor:
                pieces = vector.split([w.numel() for w in weights.values()])
                shaped = zip(weights.items(), pieces, strict=True)
                given = {name: piece.view(w.shape) for (name, w), piece in shaped}
                f = functional_call(model, given, data.x)[0]
                return plain_losses(("cross_entropy", "classes"), f, data.y).mean()

            dense = hessian(loss, torch.cat([w.flatten() for w in weights.values()]))
            paces = factors.sqrt()
            largest = torch.linalg.eigvalsh(dense * paces[:, None] * paces)[-1].item()
            # the square of the tolerance times the eigenvalue over the gap, of these networks
            assert values[-1] == pytest.approx(largest, rel=1e-3)
    still = torch.equal(next(first_model.parameters()), next(model.parameters()))
    assert still == (kind == "frozen")


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
    assert abs(sharpness(w.sum(), {w: 1.0}, start=np.random.default_rng(1))) <= 1e-12

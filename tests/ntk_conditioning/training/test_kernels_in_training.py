"""Kernels along training and what they predict, against explicit Jacobians and descent."""

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.theory.sphere import unit_rows
from ntk_conditioning.training.kernels_along import ALONG, kernel_numbers, module_kernel, sharpness
from ntk_conditioning.training.linearised import Expansion
from ntk_conditioning.training.preconditioning import prepared, repairs
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.trainer import NetworkSpec, Split
from tests.ntk_conditioning.gradients import gradient, jacobian
from tests.ntk_conditioning.references import plain_losses
from tests.ntk_conditioning.training.ensembles import LOSSES, ensemble, networks, split
from tests.support.trainings import finish

pytestmark = pytest.mark.usefixtures("one_thread")

N, C, BLOCK = 14, 3, 9
CROSS_ENTROPY, SQUARE, _ = LOSSES
MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.1, 0.4))
KINDS = [("mlp", {"together": together}) for together in (False, True)]
KINDS += [(kind, {}) for kind in ("fc_batch_norm", "resnet_fixup", "frozen", "tied")]


def network(name: str):
    size = {"depth": 4 if name == "resnet_fixup" else 2, "width": 6 if name == "mlp" else 3}
    return networks(name, image=(2, 3, 2), activation="tanh", **size)


def rate_factors(network):
    factors = {p: f for f, group in network.rate_groups().items() for p in group}
    pieces = [torch.full_like(p, factors[p]) for p in network.parameters() if p in factors]
    return torch.cat([piece.detach().flatten() for piece in pieces])


def exact(kind, state, number, x):
    model = network(kind)(generator(1, "init"))
    given = {name: state[f"network.{name}"][number] for name in model.state_dict()}
    model.load_state_dict({name: torch.as_tensor(values) for name, values in given.items()})
    freeze_statistics(model, x)
    return model


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_measurements_are_those_of_explicit_gradients_and_hessians(kind, options):
    shape = (2, 2, 3) if kind == "resnet_fixup" else (12,)
    options = {"n": N, "shape": shape, "epochs": 6, "batch_size": 5, "momentum": 0.5} | options
    members = MEMBERS if kind == "mlp" else MEMBERS[:1]
    trained = ensemble(network(kind), members, along=(BLOCK, 4), **options)
    initial, centre = {}, np.eye(BLOCK) - 1 / BLOCK
    assert trained.measured == [0, 1, 2, 6]
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
            j, factors = jacobian(model, (data.x,)), rate_factors(model)
            k = torch.einsum("iap,jap,p->ij", j, j, factors).numpy() / 3
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
            trained_weights = [p for p in model.parameters() if p.requires_grad]
            loss = plain_losses(CROSS_ENTROPY, model(data.x)[0], data.y).mean()
            slopes = gradient(loss, trained_weights, create_graph=True)
            dense = torch.stack([gradient(slope, trained_weights) for slope in slopes])
            paces = factors.sqrt()
            largest = torch.linalg.eigvalsh(dense * paces[:, None] * paces)[-1].item()
            # the square of the tolerance times the eigenvalue over the gap, of these networks
            assert values[-1] == pytest.approx(largest, rel=1e-3)
    still = torch.equal(next(first_model.parameters()), next(model.parameters()))
    assert still == (kind == "frozen")


def test_what_a_kernel_cannot_tell_is_missing_and_a_linear_loss_has_no_curvature():
    equal, codes = np.full((3, 3), 3.0), np.eye(3)
    numbers = kernel_numbers(equal, equal, codes)
    assert np.isnan([numbers["kappa"], numbers["lambda_min"], numbers["alignment"]]).all()
    assert (numbers["lambda_max"], numbers["kernel_change"]) == (pytest.approx(9), 0)
    assert all(np.isnan([*kernel_numbers(np.zeros((3, 3)), equal, codes).values()]))
    assert numbers["min_angle"] == 0  # though 3 / sqrt(3)² is above 1
    assert np.isnan(kernel_numbers(np.diag([1.0, 0.0]), equal[:2, :2], codes[:2])["min_angle"])
    for size in (1, 20):
        w = torch.zeros(size, dtype=torch.float64, requires_grad=True)
        assert abs(sharpness(w.sum(), {w: 1.0}, start=np.random.default_rng(1))) <= 1e-12


VECTORS, IMAGES = split(0, N, 5), split(0, N, 2, 4, 4)


def mlp(depth, width=7, activation="tanh"):
    return networks("mlp", image=(5,), depth=depth, width=width, activation=activation)


def resnet(rng):
    size = {"image": (4, 4, 2), "depth": 4, "width": 2}
    network = networks("resnet_fixup", **size, activation="tanh")(rng)
    for parameter in network.parameters():  # of which some begin at zero
        parameter.data += 0.1 * torch.from_numpy(rng.standard_normal(parameter.shape))
    return network


def expanded_curves(make, members, **options):
    trained = finish(ensemble(lambda rng: Expansion(make(rng)), members, **options))
    return trained.metrics["train_loss"]


DESCENTS = [{"loss": SQUARE}, {"loss": SQUARE, "momentum": 0.9}]
DESCENTS += [{"loss": CROSS_ENTROPY, "batch_size": 4, "momentum": 0.9, "weight_decay": 0.01}]


@pytest.mark.parametrize("make", [mlp(0), mlp(1), mlp(3), resnet])
@pytest.mark.parametrize("options", DESCENTS)
def test_an_expansion_descends_as_its_explicit_jacobian_does(make, options):
    data, usual = IMAGES if make is resnet else VECTORS, {"epochs": 10, "batch_size": N}
    options = usual | {"momentum": 0.0, "weight_decay": 0.0} | options
    members = [NetworkSpec(seed, rate) for seed in (1, 2) for rate in (0.05, 0.1)]
    found = expanded_curves(make, members, data=data, **options)
    for curve, (seed, rate) in zip(found.T, members, strict=True):
        network, losses = make(generator(seed, "init")), []
        f, j = network(data.x)[0].detach().flatten(), jacobian(network, (data.x,)).flatten(0, 1)
        pace = rate_factors(network)
        start = parameters_to_vector(network.parameters()).detach()
        change, velocity = torch.zeros_like(start), torch.zeros_like(start)
        for epoch in range(1, 12):  # the last is only begun
            out = (f + j @ change).reshape(N, C)
            losses.append(plain_losses(options["loss"], out, data.y).mean().item())
            order = torch.from_numpy(generator(seed, "batch", epoch).permutation(N))
            for rows in order.split(options["batch_size"]):
                out = (f + j @ change).reshape(N, C).requires_grad_()
                loss = plain_losses(options["loss"], out[rows], data.y[rows]).mean()
                pull = torch.autograd.grad(loss, out)[0].flatten()
                gradient = j.T @ pull + options["weight_decay"] * (start + change)
                velocity = options["momentum"] * velocity + gradient
                change = change - rate * pace * velocity
        np.testing.assert_allclose(curve, losses, rtol=1e-10)
    assert (found[-1] / found[0]).min() < 0.95
    assert len(pace.unique()) == (2 if make is resnet else 1)
    kernel = module_kernel(network, data.x, "full")
    np.testing.assert_allclose(kernel, (j * pace) @ j.T, rtol=1e-10, atol=1e-12)


def test_the_closed_form_is_gradient_descent_on_the_square_loss():
    make = mlp(2, width=6, activation="relu")
    network = make(generator(1, "init"))
    residual = np.eye(C)[VECTORS.y] - network(VECTORS.x)[0].detach().numpy()
    values, vectors = np.linalg.eigh(module_kernel(network, VECTORS.x, "full").numpy())
    squares = np.square(vectors.T @ residual.ravel())
    critical, options = 2 * N / values[-1], {"epochs": 200, "data": VECTORS, "loss": SQUARE}
    for rate in (0.5 * critical, 0.95 * critical):  # the second overshoots, and yet converges
        curve = expanded_curves(make, [NetworkSpec(1, rate)], **options)[:, 0]
        predicted = predicted_losses(values, squares, rate=rate, n=N, steps=np.arange(201))
        np.testing.assert_allclose(curve, predicted, rtol=1e-10)
        share = curve[150] / curve[0]
        assert predicted_steps(values, squares, rate=rate, n=N, share=share) == pytest.approx(150)
    assert predicted_steps(values, squares, rate=1.5 * critical, n=N, share=share) == np.inf
    still = {"eigenvalues": values[[0, -1]], "squares": np.array([1.0, 0.0])}  # where it diverges
    assert predicted_steps(**still, rate=1.5 * critical, n=N, share=0.5) > 0


def infinite_kernel(x):
    return infinite.ntk(x / np.sqrt(np.square(x).sum() / len(x)), depth=2, activation="relu")


def test_repairs_are_what_they_say_and_take_the_steps_of_preconditioned_descent():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 6)) * rng.uniform(0.5, 2, (20, 1)) + 2
    y = np.eye(3)[rng.integers(3, size=20)]
    repaired = repairs(x, y, activation=activations.get("relu"), depth=2, directions=[1, 3])
    repaired = {(one.place, one.repair, one.directions): one for one in repaired}
    k, centring, centred = infinite_kernel(x), np.eye(20) - 1 / 20, x - x.mean(0)
    standardized = unit_rows(centred / x.std(0))
    top, norms, spectrum = np.linalg.svd(x)[2][:3], np.sqrt(np.diag(k)), np.linalg.eigvalsh
    expected = {
        ("nothing", "none", 0): spectrum(k),
        ("samples", "centred", 0): spectrum(infinite_kernel(centred)),
        ("samples", "unit_norm", 0): spectrum(infinite_kernel(unit_rows(x))),
        ("samples", "standardized_unit_norm", 0): spectrum(infinite_kernel(standardized)),
        ("samples", "top_directions", 3): spectrum(infinite_kernel(x - x @ top.T @ top)),
        ("kernel", "centred", 0): spectrum(centring @ k @ centring)[1:],  # beside the mean's
        ("kernel", "unit_norm", 0): spectrum(k / np.outer(norms, norms)),
        ("kernel", "top_directions", 1): spectrum(k)[:-1],
    }
    assert len(repaired) == 11
    for key, (low, *_, high) in expected.items():
        repair = repaired[key]
        assert (repair.lambda_min, repair.lambda_max) == pytest.approx((low, high))
        assert repair.kappa == pytest.approx(high / low, rel=1e-9)
    # the linear model with the kernel as it is, and with its first eigenvalue brought down
    values, vectors = np.linalg.eigh(k)
    for key, count in ((("nothing", "none", 0), 0), (("kernel", "top_directions", 1), 1)):
        lowered = np.minimum(values, values[-1 - count])
        f, losses = np.zeros_like(y), []
        for _ in range(repaired[key].steps_hundredth + 1):
            losses.append(np.square(f - y).sum())
            f -= (vectors * lowered) @ vectors.T @ (f - y) / lowered[-1]
        share = np.array(losses) / losses[0]
        for name, level in (("half", 0.5), ("tenth", 0.1), ("hundredth", 0.01)):
            assert getattr(repaired[key], f"steps_{name}") == np.argmax(share <= level)


def test_where_nothing_is_learned_there_are_no_steps_and_beyond_the_rank_nothing_is_left():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    y = np.array([[1.0], [-1.0], [0.0], [0.0]])  # of equal samples
    size = {"activation": activations.get("relu"), "depth": 1, "directions": [1]}
    plain = next(iter(repairs(x, y, **size)))
    assert (plain.kappa, plain.effective_kappa, plain.steps_half) == (None, None, None)
    low = np.outer(np.arange(1.0, 9), [1.0, 2, 3])
    assert not prepared(low, "top_directions", directions=1).any()

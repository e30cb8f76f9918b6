"""Feed-forward networks: gradients, Hessians and descent against torch's automatic derivatives."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from ntk_conditioning.errors import UserError
from ntk_conditioning.theory.liu2022transition import two_layer_smoothness
from ntk_conditioning.transition import feedforward, gradients, linearisation
from ntk_conditioning.transition.feedforward import FeedforwardNet, descend, layers, outputs
from ntk_conditioning.transition.gradients import gradient_products, layer_angles, spectral_norm
from ntk_conditioning.transition.linearisation import Expansion, hessian_norm, largest_terms
from tests.ntk_conditioning.gradients import explicit_gradients

pytestmark = pytest.mark.usefixtures("one_thread")

ARCHITECTURES = {
    "two_layer": ([7], False),
    "deep": ([6, 6, 6], False),
    "bottleneck": ([9, 3, 8], False),
    "densenet": ([5, 4, 6], True),
}
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def network(architecture: str, activation="tanh", *, seed=1, d=5) -> FeedforwardNet:
    hidden, dense = ARCHITECTURES[architecture]
    rng = np.random.default_rng(seed)
    return feedforward.draw_network(d, hidden, activation=activation, generator=rng, dense=dense)


def samples(n: int, d=5) -> Tensor:
    return torch.from_numpy(np.random.default_rng(2).standard_normal((n, d)))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@every_architecture
def test_inner_products_are_those_of_explicit_gradients(architecture, activation):
    (model, other), x = (network(architecture, activation, seed=s) for s in (1, 2)), samples(1)[0]
    for second in (model, other):
        result = list(gradient_products(model, x, None if second is model else second))
        assert [len(one) for one in result] == list(model.hidden)
        for layer, products in enumerate(result, start=1):
            expected = explicit_gradients(model, x, layer) @ explicit_gradients(second, x, layer).T
            assert torch.allclose(products, expected, rtol=0, atol=1e-12 * float(expected.max()))


@every_architecture
def test_angles_and_the_kernel_are_those_of_explicit_gradients(architecture):
    model, x = network(architecture), samples(3)
    result = {each["layer"]: each for each in layer_angles(model, x, level=0.2)}
    assert list(result) == [layer + 1 for layer, m in enumerate(model.hidden) if m > 1]
    # exactly orthogonal, Remark 4
    assert (result[1]["cos_max"], result[1]["cos_norm"]) == (0.0, 1.0)
    for layer, angles in result.items():
        rows = torch.stack([explicit_gradients(model, sample, layer) for sample in x])
        units = rows / rows.norm(dim=2, keepdim=True)
        cosines = units @ units.mT
        off = cosines[:, ~torch.eye(angles["layer_width"], dtype=torch.bool)].abs()
        slope = model.activation.derivative(layers(model, x)[1][layer - 1][0])
        jacobian = torch.linalg.matrix_norm(slope[:, None] * rows[0], 2) ** 2
        numbers = off.mean(), off.square().mean().sqrt(), off.max(), (off > 0.2).double().mean()
        numbers += torch.linalg.matrix_norm(cosines[0], 2), jacobian, rows.square().sum(2).max()
        names = ("cos_mean", "cos_rms", "cos_max", "cos_above", "cos_norm", "jacobian_norm")
        values = [angles[name] for name in (*names, "gradient_max")]
        assert values == pytest.approx([float(each) for each in numbers], rel=1e-12, abs=1e-15)
        assert angles["fan_in"] == model.fan_ins[layer - 1]
    whole = torch.cat([explicit_gradients(model, sample, len(model.weights)) for sample in x])
    assert torch.allclose(feedforward.tangents(model, x)[-1], whole @ whole.T, rtol=1e-12)


def test_a_norm_by_lanczos_is_that_of_the_whole_spectrum():
    matrix = samples(100, 100) + samples(100, 100).T
    expected = float(torch.linalg.matrix_norm(matrix, 2))
    assert spectral_norm(matrix) == pytest.approx(expected, rel=1e-7)


@every_architecture
def test_coordinates_of_the_span_change_nothing_that_is_measured(architecture):
    x, y = samples(3, 40), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    whole = network(architecture, d=40)
    small, x_small = feedforward.on_span(whole, x)
    assert len(parameters_to_vector(small.weights)) < len(parameters_to_vector(whole.weights))
    assert x_small.shape == (3, 3)
    assert torch.allclose(outputs(small, x_small), outputs(whole, x), rtol=1e-12)
    for one, other in zip(layer_angles(small, x_small), layer_angles(whole, x), strict=True):
        assert one["cos_mean"] == pytest.approx(other["cos_mean"], rel=1e-12)
    descents = descend(small, x_small, y, steps=[20]), descend(whole, x, y, steps=[20])
    one, other = (numbers for ((_, numbers),) in descents)
    assert one == pytest.approx(other, rel=1e-10)
    expansions = Expansion(whole, x[0]), Expansion(small, x_small[0])
    (of_whole, *_), (of_small, *_) = map(hessian_norm, expansions)
    assert of_small == pytest.approx(of_whole, rel=1e-9)
    assert feedforward.on_span(whole, samples(50, 40))[0] is whole


@pytest.mark.parametrize("last_fixed", [False, True])
@every_architecture
def test_the_hessian_and_the_quadratic_term_are_the_dense_ones(architecture, last_fixed):
    expansion = Expansion(network(architecture), samples(1)[0], last_fixed=last_fixed)
    # Not torch.func.hessian, which warns of a deprecation in torch itself.
    dense = torch.func.jacrev(torch.func.jacrev(expansion.value))(expansion.origin)
    norm, residual, _ = hessian_norm(expansion)
    assert norm == pytest.approx(float(torch.linalg.matrix_norm(dense, 2)), rel=1e-8)
    assert residual < 1e-4 * norm
    v = torch.from_numpy(np.random.default_rng(3).standard_normal(expansion.size))
    assert torch.allclose(expansion.hessian_product(v), dense @ v, rtol=0, atol=1e-12)
    *below, last = (weight.numel() for weight in network(architecture).weights)
    assert expansion.size == sum(below) + (0 if last_fixed else last)
    v /= v.norm()
    quotients = [2 * expansion.quadratic_term(h * v) / h**2 for h in (1e-1, 1e-2)]
    far, near = (abs(quotient - float(v @ dense @ v)) for quotient in quotients)
    assert near < min(1e-2, far / 5)
    # and its gradient, by a central difference
    step, slope = 1e-5 * v, float(expansion.quadratic_term_gradient(v) @ v)
    difference = expansion.quadratic_term(v + step) - expansion.quadratic_term(v - step)
    assert difference / 2e-5 == pytest.approx(slope, rel=1e-6)


def largest(expansion: Expansion, radius: float, eigenvector: Tensor) -> dict[str, float]:
    options = {"directions": 5, "generator": np.random.default_rng(0)}
    return largest_terms(expansion, radius, eigenvector=eigenvector, **options)


def test_the_ascent_finds_the_largest_term_whatever_its_sign():
    """Of a small ball, where the third order is small, it is the norm times radius²/2."""
    expansion = Expansion(network("deep"), samples(1)[0])
    norm, _, eigenvector = hessian_norm(expansion)
    result = largest(expansion, 1e-3, eigenvector)
    assert max(result.values()) == pytest.approx(norm * 1e-6 / 2, rel=1e-3)
    assert max(result.values()) == max(result["ascent"], result["eigenvector"]) > result["random"]
    blind = largest(expansion, 1e-3, expansion.gradient)
    assert blind["ascent"] > max(blind["random"], blind["gradient"])
    # in a ball so large that the third order counts; below the last layer f may be -f
    *below, last = network("deep").weights
    signed = (network("deep").with_weights([*below, sign * last]) for sign in (1, -1))
    expansions = [Expansion(net, samples(1)[0], last_fixed=True) for net in signed]
    first, second = (largest(expansion, 3, expansion.gradient) for expansion in expansions)
    assert first["ascent"] == pytest.approx(second["ascent"], rel=1e-9)
    assert first["ascent"] > 1.1 * max(first["random"], first["gradient"])


def test_a_bound_takes_the_largest_weight_anywhere_in_the_ball():
    """Theorem 1, of a network of two layers."""
    model, x, radius = network("two_layer"), samples(1), 2.0
    (row,) = linearisation.linearity(model, x, radii=[radius], directions=3, seed=1)
    largest, norm = float(model.weights[1].abs().max()), float(x.norm()) / 5**0.5
    smoothness = two_layer_smoothness(model.activation, norm, largest + radius)
    assert row["bound"] == pytest.approx(smoothness * radius**2 / (2 * 7**0.5))
    assert row["quadratic_term"] <= row["bound"]


@every_architecture
def test_descent_is_along_the_gradient_by_the_largest_eigenvalue_there(architecture):
    """Steps are those of automatic derivatives; the second has the second kernel's size."""
    model, x, y = network(architecture), samples(3), torch.tensor([30.0, -30.0, 30.0])
    weights = [weight.clone().requires_grad_() for weight in model.weights]
    for _ in range(2):
        here = model.with_weights(weights)
        step = 0.5 / torch.linalg.eigvalsh(feedforward.tangents(here, x)[-1])[-1]
        slopes = torch.autograd.grad((outputs(here, x) - y).square().sum() / 2, weights)
        pairs = zip(weights, slopes, strict=True)
        weights = [(w - step * slope).detach().requires_grad_() for w, slope in pairs]
    (_, still), (end, result) = descend(model, x, y, steps=[0, 2], step_size=0.5)
    trained = model.with_weights([weight.detach() for weight in weights])
    torch.testing.assert_close(end.weights, trained.weights)
    errors = [float((outputs(net, x) - y).square().sum()) for net in (model, trained)]
    assert (2 * result["loss_before"], 2 * result["loss_after"]) == pytest.approx(errors)
    moved = parameters_to_vector(trained.weights) - parameters_to_vector(model.weights)
    assert result["distance"] == pytest.approx(float(moved.norm()))
    before, after = (feedforward.tangents(net, x)[-1] for net in (model, trained))
    ratio = torch.linalg.matrix_norm(after - before, 2) / torch.linalg.matrix_norm(before, 2)
    assert result["kernel_change"] == pytest.approx(float(ratio))
    assert (still["kernel_change"], still["distance"]) == (0, 0)


def test_a_silent_network_is_linear_and_neither_descends_nor_has_angles():
    """One hidden layer of ReLUs is linear in the weights below the last, and may be silent."""
    model, x = network("two_layer", "relu"), samples(3).abs()
    silent = model.with_weights([-w.abs() for w in model.weights])
    for expansion in (Expansion(model, x[0], last_fixed=True), Expansion(silent, x[0])):
        norm, residual, eigenvector = hessian_norm(expansion)
        assert (norm, residual) == (0, 0)
        assert max(largest(expansion, 0.01, eigenvector).values()) < 1e-15
    straight = Expansion(network("two_layer", "linear"), x[0], last_fixed=True)
    assert set(largest(straight, 1.0, straight.gradient).values()) == {0.0}  # no rounding, either
    for steps in ([0], [1]):
        with pytest.raises(UserError, match="the NTK is 0 in step 0"):
            [*descend(silent, x, torch.ones(3, dtype=torch.float64), steps=steps)]
    deep = network("deep", "relu")
    dead = deep.with_weights([-deep.weights[0].abs(), *deep.weights[1:]])
    with pytest.raises(gradients.ZeroGradientError, match="gradient 0"):
        layer_angles(dead, x)

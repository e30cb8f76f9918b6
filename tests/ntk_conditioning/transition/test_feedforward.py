"""Feed-forward networks: gradients, Hessians and descent against torch's automatic derivatives."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ntk_conditioning.transition import gradients
from ntk_conditioning.transition.descent import descend
from ntk_conditioning.transition.feedforward import (
    FeedforwardNet,
    draw_network,
    kernel,
    layers,
    on_span,
    outputs,
)
from ntk_conditioning.transition.gradients import (
    ZeroGradientError,
    gradient_products,
    layer_angles,
    spectral_norm,
)
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms

pytestmark = pytest.mark.usefixtures("one_thread")

ARCHITECTURES = {
    "two_layer": ([7], False),
    "deep": ([6, 6, 6], False),
    "bottleneck": ([9, 3, 8], False),
    "densenet": ([5, 4, 6], True),
}
D = 5


def network(
    architecture: str, activation: str = "tanh", seed: int = 1, d: int = D
) -> FeedforwardNet:
    hidden, dense = ARCHITECTURES[architecture]
    rng = np.random.default_rng(seed)
    return draw_network(d, hidden, activation=activation, generator=rng, dense=dense)


def samples(n: int, d: int = D, seed: int = 2) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))


def explicit_gradients(model: FeedforwardNet, x: Tensor, layer: int) -> Tensor:
    """Return the gradients (m_l, p) of a layer's pre-activations, one by one."""
    weights = [weight.clone().requires_grad_() for weight in model.weights]
    sums = layers(model.with_weights(weights), x[None])[1][layer - 1][0]
    rows = []
    for z in sums:
        parts = torch.autograd.grad(z, weights[:layer], retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_inner_products_are_those_of_explicit_gradients(
    architecture: str, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "TILE", 3)
    model, other = (network(architecture, activation, seed) for seed in (1, 2))
    x = samples(1)[0]
    for second in (None, other):
        result = list(gradient_products(model, x, second))
        assert [len(one) for one in result] == list(model.hidden)
        for layer, products in enumerate(result, start=1):
            left = explicit_gradients(model, x, layer)
            right = explicit_gradients(second or model, x, layer)
            expected = left @ right.T
            assert torch.allclose(products, expected, rtol=0, atol=1e-12 * float(expected.max()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_angles_are_those_of_explicit_gradients(architecture: str) -> None:
    model, x = network(architecture), samples(3)
    result = {each.layer: each for each in layer_angles(model, x, level=0.2)}
    assert list(result) == [layer + 1 for layer, m in enumerate(model.hidden) if m > 1]
    assert (result[1].cos_max, result[1].cos_norm) == (0.0, 1.0)  # exactly orthogonal, Remark 4
    for layer, angles in result.items():
        cosines, jacobians = [], []
        for k, sample in enumerate(x):
            rows = explicit_gradients(model, sample, layer)
            unit = rows / rows.norm(dim=1, keepdim=True)
            cosines.append(unit @ unit.T)
            slope = model.activation.derivative(layers(model, x)[1][layer - 1][k])
            jacobians.append(torch.linalg.matrix_norm(slope[:, None] * rows, 2) ** 2)
        distinct = ~torch.eye(angles.width, dtype=torch.bool)
        off = torch.stack([one[distinct].abs() for one in cosines])
        assert angles.cos_mean == pytest.approx(float(off.mean()), rel=1e-12, abs=1e-15)
        assert angles.cos_rms == pytest.approx(float(off.square().mean().sqrt()), rel=1e-12)
        assert angles.cos_max == pytest.approx(float(off.max()), rel=1e-12)
        assert angles.cos_above == pytest.approx(float((off > 0.2).double().mean()))
        norms = [float(torch.linalg.matrix_norm(one, 2)) for one in cosines]
        assert angles.cos_norm == pytest.approx(norms[0], rel=1e-12)
        assert angles.jacobian_norm == pytest.approx(float(jacobians[0]), rel=1e-12)
        assert angles.fan_in == model.fan_ins[layer - 1]


def test_a_gradient_that_vanishes_has_no_angle() -> None:
    model = network("deep", "relu")
    dead = model.with_weights([-model.weights[0].abs(), *model.weights[1:]])
    with pytest.raises(ZeroGradientError, match="gradient 0"):
        layer_angles(dead, samples(1).abs())


def test_a_norm_by_lanczos_is_that_of_the_whole_spectrum() -> None:
    matrix = samples(100, 100)
    matrix = matrix + matrix.T
    expected = float(torch.linalg.eigvalsh(matrix).abs().max())
    assert spectral_norm(matrix) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_coordinates_of_the_span_change_nothing_that_is_measured(architecture: str) -> None:
    x, y = samples(3, 40), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    whole = network(architecture, d=40)
    small, x_small = on_span(whole, x)
    assert small.parameters < whole.parameters
    assert x_small.shape == (3, 3)
    assert torch.allclose(outputs(small, x_small), outputs(whole, x), rtol=1e-12)
    pairs = zip(layer_angles(small, x_small), layer_angles(whole, x), strict=True)
    for one, other in pairs:
        assert one.cos_mean == pytest.approx(other.cos_mean, rel=1e-12)
    ends = [descend(model, s, y, steps=20) for model, s in ((whole, x), (small, x_small))]
    assert ends[0].loss_after == pytest.approx(ends[1].loss_after, rel=1e-10)
    assert ends[0].distance == pytest.approx(ends[1].distance, rel=1e-10)
    norms = [
        hessian_norm(Expansion(model, s)).norm for model, s in ((whole, x[0]), (small, x_small[0]))
    ]
    assert norms[0] == pytest.approx(norms[1], rel=1e-9)
    assert on_span(whole, samples(50, 40))[0] is whole


def dense_hessian(expansion: Expansion) -> Tensor:
    # Not torch.func.hessian, which warns of a deprecation in torch itself.
    hessian: Tensor = torch.func.jacrev(torch.func.jacrev(expansion.value))(expansion.origin)
    return hessian


@pytest.mark.parametrize("last_fixed", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_hessian_is_the_dense_one(architecture: str, last_fixed: bool) -> None:
    expansion = Expansion(network(architecture), samples(1)[0], last_fixed=last_fixed)
    dense = dense_hessian(expansion)
    values = torch.linalg.eigvalsh(dense)
    result = hessian_norm(expansion)
    assert result.norm == pytest.approx(float(values.abs().max()), rel=1e-8)
    assert result.residual < 1e-4 * result.norm
    v = torch.from_numpy(np.random.default_rng(3).standard_normal(expansion.size))
    assert torch.allclose(expansion.hessian_product(v), dense @ v, rtol=0, atol=1e-12)
    assert expansion.size == sum(
        weight.numel() for weight in network(architecture).weights[: -1 if last_fixed else None]
    )


def test_the_quadratic_term_is_that_of_finite_differences() -> None:
    expansion = Expansion(network("deep"), samples(1)[0])
    dense = dense_hessian(expansion)
    v = torch.from_numpy(np.random.default_rng(3).standard_normal(expansion.size))
    v /= torch.linalg.vector_norm(v)
    second = float(v @ dense @ v)
    errors = []
    for h in (1e-1, 1e-2):
        quotient = 2 * expansion.quadratic_term(h * v) / h**2
        errors.append(abs(quotient - second))
    assert errors[1] < 1e-2
    assert errors[1] < errors[0] / 5
    # and its gradient, by a central difference
    step = 1e-5 * v
    difference = expansion.quadratic_term(v + step) - expansion.quadratic_term(v - step)
    assert difference / 2e-5 == pytest.approx(
        float(expansion.quadratic_term_gradient(v) @ v), rel=1e-6
    )


def test_the_ascent_finds_the_largest_term_of_a_small_ball() -> None:
    """There the third order is small, and the largest term is the norm times radius²/2."""
    expansion = Expansion(network("deep"), samples(1)[0])
    norm = hessian_norm(expansion)
    radius = 1e-3
    rng = np.random.default_rng(0)
    result = largest_terms(
        expansion, radius, eigenvector=norm.eigenvector, directions=5, generator=rng
    )
    assert result.largest == pytest.approx(norm.norm * radius**2 / 2, rel=1e-3)
    assert result.largest == max(result.ascent, result.eigenvector) > result.random
    blind = largest_terms(
        expansion, radius, eigenvector=expansion.gradient, directions=5, generator=rng
    )
    assert blind.ascent > max(blind.random, blind.gradient)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernel_is_that_of_explicit_gradients(architecture: str) -> None:
    model, x = network(architecture), samples(4)
    depth = len(model.weights)
    rows = torch.cat([explicit_gradients(model, sample, depth) for sample in x])
    assert torch.allclose(kernel(model, x), rows @ rows.T, rtol=1e-12)


def test_descent_lowers_the_loss_and_tells_how_far_it_went() -> None:
    model, x = network("deep"), samples(4)
    y = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    result = descend(model, x, y, steps=50)
    error = outputs(result.trained, x) - y
    assert result.loss_after == pytest.approx(float(error @ error) / 2)
    assert result.loss_after < result.loss_before / 2
    moved = sum(
        float((a - b).square().sum())
        for a, b in zip(result.trained.weights, model.weights, strict=True)
    )
    assert result.distance == pytest.approx(moved**0.5)
    change = kernel(result.trained, x) - kernel(model, x)
    ratio = torch.linalg.matrix_norm(change, 2) / torch.linalg.matrix_norm(kernel(model, x), 2)
    assert result.kernel_change == pytest.approx(float(ratio))
    still = descend(model, x, y, steps=0)
    assert (still.kernel_change, still.distance) == (0, 0)

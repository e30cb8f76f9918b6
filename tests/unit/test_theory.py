"""The formulas of liu2023relu against their definitions, their limits and high precision."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning import theory


def exact_gradient_angle(theta_in: float, depth: int, *, upper: int | None = None) -> mpmath.mpf:
    """Return φ by Eq. (10) as printed, with 60 digits."""
    with mpmath.workdps(60):
        theta = [mpmath.mpf(theta_in)]
        for _ in range(depth):
            z = theta[-1]
            theta.append(mpmath.acos(((mpmath.pi - z) * mpmath.cos(z) + mpmath.sin(z)) / mpmath.pi))
        total = mpmath.mpf(0)
        for start in range(depth + 1):
            product = mpmath.cos(theta[start])
            for layer in range(start, depth):
                product *= 1 - theta[layer] / mpmath.pi
            total += product
        return mpmath.acos(total / (depth + 1))


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("theta", [1e-9, 1e-6, 1e-3, 0.2, 0.31, 1.0, math.pi / 2, 3.0, math.pi])
def test_gradient_angle_is_theorem_4_4_to_rounding(theta, depth):
    exact = exact_gradient_angle(theta, depth)
    # the conditioning of φ with respect to θ is about 1; a few roundings per layer
    assert abs(theory.gradient_angle(theta, depth) / float(exact) - 1) < 1e-13


@pytest.mark.parametrize("theta", [1e-9, 1e-6, 1e-3, 0.29, 0.31, 1.0, 2.0, 3.1])
def test_g_is_equation_8_to_rounding(theta):
    with mpmath.workdps(60):
        z = mpmath.mpf(theta)
        exact = mpmath.acos(((mpmath.pi - z) * mpmath.cos(z) + mpmath.sin(z)) / mpmath.pi)
    assert abs(theory.g(theta) / float(exact) - 1) < 1e-14


class TestPropositionA1:
    z = np.linspace(0, math.pi, 2001)

    def test_g_increases(self):
        assert np.all(np.diff(theory.g(self.z)) > 0)

    def test_g_is_below_the_identity_except_at_zero(self):
        assert np.all(theory.g(self.z[1:]) < self.z[1:])
        assert theory.g(0.0) == 0

    def test_iterates_fall_to_zero(self):
        angles = [float(theory.embedding_angle(2.0, layer)) for layer in range(0, 400, 40)]
        assert np.all(np.diff(angles) < 0)
        # g(z) = z - z²/3π + … falls like 3π/l
        assert angles[-1] == pytest.approx(3 * math.pi / 360, rel=0.1)


@pytest.mark.parametrize("layer", [1, 3, 8])
def test_corollary_4_3_is_right_to_second_order(layer):
    theta = np.array([1e-2, 1e-3])
    error = np.abs(
        theory.embedding_angle(theta, layer) - theory.embedding_angle_small(theta, layer)
    )
    order = math.log10(error[0] / error[1])
    assert order == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("depth", [1, 4, 10])
def test_theorem_4_5_has_depth_over_2_pi_and_not_depth_over_2(depth):
    theta = 1e-6
    factor = np.cos(theory.gradient_angle(theta, depth)) / math.cos(theta)
    # 1 - cos is kept by the angle: cos φ itself would round
    fall = 2 * np.sin(theory.gradient_angle(theta, depth) / 2) ** 2
    coefficient = fall / theta
    assert coefficient == pytest.approx(depth / (2 * math.pi), rel=1e-4)
    assert coefficient != pytest.approx(depth / 2, rel=0.5)
    assert factor == pytest.approx(theory.gradient_cosine_small(theta, depth) / math.cos(theta))


def test_depth_separates_similar_inputs():
    theta = np.radians(np.linspace(0.1, 60, 200))
    angles = np.array([theory.gradient_angle(theta, depth) for depth in range(11)])
    assert np.all(np.diff(angles, axis=0) > 0)


def test_the_gradients_norm_is_the_square_root():
    assert theory.gradient_norm(3.0, 8) == pytest.approx(9.0)


def test_the_loss_bound():
    assert theory.loss_bound(4.0, [0, 1, 2], 16.0).tolist() == [16.0, 12.0, 9.0]


@pytest.mark.parametrize("phi", [1e-4, 0.1, 1.0])
def test_proposition_2_2_bounds_every_such_matrix(phi):
    random = np.random.default_rng(0)
    for _ in range(20):
        b = random.standard_normal((6, 12))
        across = b[1] - (b[1] @ b[0]) / (b[0] @ b[0]) * b[0]
        norms = np.linalg.norm(b, axis=1)
        b[1] = norms[1] * (
            math.cos(phi) * b[0] / norms[0] + math.sin(phi) * across / np.linalg.norm(across)
        )
        eigenvalues = np.linalg.svd(b, compute_uv=False) ** 2
        assert eigenvalues[-1] <= theory.lambda_min_bound(norms[0], norms[1], phi) * (1 + 1e-9)
        bound = theory.kappa_lower_bound(norms, 0, 1, phi)
        assert eigenvalues[0] / eigenvalues[-1] >= bound * (1 - 1e-9)


@pytest.mark.parametrize("theta", [-0.1, 3.2])
def test_angles_outside_are_refused(theta):
    with pytest.raises(ValueError, match="radians"):
        theory.g(theta)

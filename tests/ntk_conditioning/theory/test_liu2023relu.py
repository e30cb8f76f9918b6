"""The theorems' functions against their printed forms in high precision, and their limits."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.theory import liu2023relu as theory

ANGLES = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.29, 0.31, 1.0, 2.0, 3.0, math.pi)


def exact_angles(theta_in: float, depth: int) -> tuple[float, float]:
    """Return θ^(L) by Eq. (8) and φ by Eq. (10), as printed; acos loses half of the digits."""
    with mpmath.workdps(60):
        angles = [mpmath.mpf(theta_in)]
        for _ in range(depth):
            z = angles[-1]
            cosine = (mpmath.pi - z) / mpmath.pi * mpmath.cos(z) + mpmath.sin(z) / mpmath.pi
            angles.append(mpmath.acos(cosine))
        total = mpmath.mpf(0)
        for layer in range(depth + 1):
            kept = [1 - later / mpmath.pi for later in angles[layer:depth]]
            total += mpmath.cos(angles[layer]) * mpmath.fprod(kept)
        return float(angles[-1]), float(mpmath.acos(total / (depth + 1)))


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("theta", ANGLES)
def test_angles_are_those_of_theorem_4_4(theta, depth):
    embedding, gradient = exact_angles(theta, depth)
    tolerance = 2e-15 if depth <= 1 else 1e-14
    assert float(theory.embedding_angle(theta, depth)) == pytest.approx(embedding, rel=tolerance)
    assert float(theory.gradient_angle(theta, depth)) == pytest.approx(gradient, rel=1e-14)


def test_iterates_of_g_compose_and_decrease_to_zero():
    """Proposition A.1, part 3; with Corollary 4.3 summed, g^l(z) tends to 3π/l."""
    z = np.array([0.01, 1.0, 3.1])
    iterates = [*itertools.accumulate([z] * 200, lambda angles, _: theory.g(angles))]
    assert (np.diff(iterates, axis=0) < 0).all()
    np.testing.assert_allclose(theory.embedding_angle(z, 199), iterates[-1], rtol=1e-13)
    assert theory.embedding_angle(3.1, 20_000) * 20_000 == pytest.approx(3 * math.pi, rel=1e-2)


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_theorem_4_5_has_coefficient_l_over_2_pi(depth):
    theta = 1e-7 / depth
    distance = 2 * math.sin(float(theory.gradient_angle(theta, depth)) / 2) ** 2
    # cos φ = (1 - c θ) cos θ: 1 - cos φ = c θ + O(θ²)
    assert distance / theta == pytest.approx(depth / (2 * math.pi), rel=1e-6)
    tiny, cosine = theory.gradient_cosine_small([theta, 1e-3], depth)
    assert 1 - tiny == pytest.approx(distance, rel=1e-5)
    assert cosine == pytest.approx((1 - depth / (2 * math.pi) * 1e-3) * math.cos(1e-3), rel=1e-15)


def test_loss_bound_is_equation_13():
    t = np.arange(6)
    np.testing.assert_allclose(theory.loss_bound(4.0, t, 3.0), 3 * 0.75**t, rtol=1e-14)
    assert theory.loss_bound(1.0, 0, 3.0) == 3  # 0^0: nothing has happened yet
    assert theory.loss_bound(1.0, 1, 3.0) == 0
    assert theory.loss_bound(math.inf, 100, 3.0) == 3


@pytest.mark.parametrize("seed", range(3))
def test_proposition_2_2_bounds_hold(seed):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((6, 9)) * rng.uniform(0.5, 2, 6)[:, None]
    b[4] = 1.3 * b[2] + 1e-2 * rng.standard_normal(9)
    norms = np.linalg.norm(b, axis=1)
    low, *_, high = np.linalg.eigvalsh(b @ b.T)
    for i, j in [(2, 4), (0, 1), (3, 5)]:
        angle = math.acos(b[i] @ b[j] / norms[i] / norms[j])
        bound = theory.lambda_min_bound(norms[i], norms[j], angle)
        assert low <= bound
        assert np.mean(norms**2) / bound <= high / low
        # the vector of the proof attains it
        v = np.zeros(6)
        v[i], v[j] = norms[j], -norms[i]
        assert bound == pytest.approx(v @ b @ b.T @ v / (v @ v), rel=1e-9)


@pytest.mark.parametrize("angle", [-1e-9, 3.2, math.nan])
def test_angles_outside_0_to_pi_are_refused(angle):
    for call in (theory.g, lambda z: theory.gradient_angle(z, 2)):
        with pytest.raises(theory.DomainError, match=r"lies in \[0, π\]"):
            call([0.5, angle])

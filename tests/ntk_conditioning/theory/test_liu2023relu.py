"""The theorems' functions against their printed forms in high precision, and their limits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.theory import liu2023relu as theory

ANGLES = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.29, 0.31, 1.0, 2.0, 3.0, math.pi)


def exact_g(z: mpmath.mpf) -> mpmath.mpf:
    """Eq. (8) as printed; acos loses half of the digits, so give it twice as many."""
    return mpmath.acos((mpmath.pi - z) / mpmath.pi * mpmath.cos(z) + mpmath.sin(z) / mpmath.pi)


def exact_gradient_angle(theta_in: float, depth: int) -> float:
    """Eq. (10) as printed."""
    angles = [mpmath.mpf(theta_in)]
    for _ in range(depth):
        angles.append(exact_g(angles[-1]))
    total = mpmath.mpf(0)
    for layer in range(depth + 1):
        product = mpmath.cos(angles[layer])
        for later in range(layer, depth):
            product *= 1 - angles[later] / mpmath.pi
        total += product
    return mpmath.acos(total / (depth + 1))


@pytest.mark.parametrize("z", ANGLES)
def test_g_is_equation_8(z):
    with mpmath.workdps(60):
        expected = float(exact_g(mpmath.mpf(z)))
    assert float(theory.g(z)) == pytest.approx(expected, rel=2e-15)


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("theta", ANGLES)
def test_gradient_angle_is_theorem_4_4(theta, depth):
    with mpmath.workdps(60):
        expected = float(exact_gradient_angle(theta, depth))
    assert float(theory.gradient_angle(theta, depth)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("theta", [1e-6, 1e-9])
def test_the_cosine_distance_of_tiny_gradient_angles_is_right(theta):
    with mpmath.workdps(60):
        expected = float(1 - mpmath.cos(exact_gradient_angle(theta, 7)))
    found = 2 * np.sin(theory.gradient_angle(theta, 7) / 2) ** 2
    assert found == pytest.approx(expected, rel=1e-13)


def test_g_increases_and_lies_below_the_identity():
    """Proposition A.1, parts 1 and 2."""
    z = np.concatenate([[0.0], np.geomspace(1e-9, math.pi, 500)])
    values = theory.g(z)
    assert (np.diff(values) > 0).all()
    assert values[0] == 0
    assert (values[1:] < z[1:]).all()
    assert values[-1] == pytest.approx(math.pi / 2)


def test_iterates_of_g_decrease_to_zero():
    """Proposition A.1, part 3; with Corollary 4.3 summed, g^l(z) tends to 3π/l."""
    z = np.array([0.01, 1.0, 3.1])
    iterates = np.stack([theory.g_iterated(z, times) for times in range(200)])
    assert (np.diff(iterates, axis=0) < 0).all()
    assert theory.g_iterated(3.1, 20_000) * 20_000 == pytest.approx(3 * math.pi, rel=1e-2)


def test_iteration_composes():
    z = np.linspace(0, math.pi, 30)
    np.testing.assert_array_equal(theory.g_iterated(z, 0), z)
    np.testing.assert_allclose(
        theory.g_iterated(z, 5), theory.g_iterated(theory.g_iterated(z, 2), 3), rtol=1e-15
    )
    np.testing.assert_array_equal(theory.embedding_angle(z, 3), theory.g_iterated(z, 3))


@pytest.mark.parametrize("layer", [1, 3, 10])
def test_corollary_4_3_is_right_to_second_order(layer):
    """The remainder is of third order: it falls by 1000 when the angle falls by 10."""
    theta = np.array([1e-2, 1e-3]) / layer
    remainder = theory.embedding_angle(theta, layer) - theory.embedding_angle_small(theta, layer)
    assert remainder[0] / remainder[1] == pytest.approx(1000, rel=0.05)
    # and the second-order term is needed: without it the remainder falls by 100 only
    first_order = theory.embedding_angle(theta, layer) - theta
    assert first_order[0] / first_order[1] == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_theorem_4_5_has_coefficient_l_over_2_pi(depth):
    theta = 1e-7 / depth
    distance = 2 * math.sin(float(theory.gradient_angle(theta, depth)) / 2) ** 2
    # cos φ = (1 - c θ) cos θ: 1 - cos φ = c θ + O(θ²)
    coefficient = distance / theta
    assert coefficient == pytest.approx(depth / (2 * math.pi), rel=1e-6)
    assert coefficient != pytest.approx(depth / 2, rel=0.5)  # the proof's last line
    cosine = theory.gradient_cosine_small(np.array([theta, 1e-3]), depth)
    assert 1 - cosine[0] == pytest.approx(distance, rel=1e-5)
    assert cosine[1] == pytest.approx(
        (1 - depth / (2 * math.pi) * 1e-3) * math.cos(1e-3), rel=1e-15
    )


@pytest.mark.parametrize("theta", [1e-6, 1e-2, 0.5])
def test_similar_inputs_are_separated_better_by_more_depth(theta):
    """Section 4: φ > θ_in, and φ grows with L, for similar inputs."""
    angles = np.array([theory.gradient_angle(theta, depth) for depth in range(11)])
    assert angles[0] == pytest.approx(theta, rel=1e-15)
    assert (np.diff(angles) > 0).all()


def test_gradient_norm_is_that_of_the_proof():
    """Eq. (39), |∇f(x)|² = (L+1)|x|²; the theorem prints |∇f(x)| = (L+1)|x|."""
    np.testing.assert_allclose(theory.gradient_norm([0.0, 2.0], 4) ** 2, [0.0, 20.0], rtol=1e-15)


def test_loss_bound_is_equation_13():
    t = np.arange(6)
    np.testing.assert_allclose(theory.loss_bound(4.0, t, 3.0), 3 * 0.75**t, rtol=1e-14)
    assert theory.loss_bound(1.0, 0, 3.0) == 3  # 0^0: nothing has happened yet
    assert theory.loss_bound(1.0, 1, 3.0) == 0
    assert theory.loss_bound(math.inf, 100, 3.0) == 3
    with pytest.raises(theory.DomainError, match="at least 1"):
        theory.loss_bound(0.5, 1, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_proposition_2_2_bounds_hold(seed):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((6, 9)) * rng.uniform(0.5, 2, 6)[:, None]
    b[4] = 1.3 * b[2] + 1e-2 * rng.standard_normal(9)
    norms = np.linalg.norm(b, axis=1)
    eigenvalues = np.linalg.eigvalsh(b @ b.T)
    for i, j in [(2, 4), (0, 1), (3, 5)]:
        angle = math.acos(b[i] @ b[j] / norms[i] / norms[j])
        bound = theory.lambda_min_bound(norms[i], norms[j], angle)
        assert eigenvalues[0] <= bound
        # the vector of the proof attains it
        v = np.zeros(6)
        v[i], v[j] = norms[j], -norms[i]
        assert bound == pytest.approx(v @ b @ b.T @ v / (v @ v), rel=1e-9)
        kappa = eigenvalues[-1] / eigenvalues[0]
        assert theory.kappa_lower_bound(norms, i, j, angle) <= kappa


def test_proposition_2_2_is_sharp_for_two_rows_of_equal_norm():
    angle = 1e-5
    assert theory.lambda_min_bound(3.0, 3.0, angle) == pytest.approx(
        9 * 2 * math.sin(angle / 2) ** 2, rel=1e-14
    )
    assert theory.kappa_lower_bound([3.0, 3.0], 0, 1, angle) == pytest.approx(2 / angle**2)
    assert theory.kappa_lower_bound([3.0, 3.0], 0, 1, 0.0) == math.inf


@pytest.mark.parametrize("angle", [-1e-9, 3.2, math.nan])
def test_angles_outside_0_to_pi_are_refused(angle):
    for call in (theory.g, lambda z: theory.gradient_angle(z, 2)):
        with pytest.raises(theory.DomainError, match=r"lies in \[0, π\]"):
            call([0.5, angle])


def test_negative_depths_are_refused():
    with pytest.raises(theory.DomainError, match="-1 is negative"):
        theory.gradient_angle(0.5, -1)


def test_scalars_give_scalars_and_arrays_keep_their_shape():
    assert np.shape(theory.g(0.5)) == np.shape(theory.gradient_angle(0.5, 3)) == ()
    assert theory.gradient_angle(np.ones((2, 3)), 3).shape == (2, 3)

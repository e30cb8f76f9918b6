"""The theorems' functions against their printed forms in high precision, and their limits."""

import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.theory import liu2023relu as theory
from tests.ntk_conditioning.references import gradient_cosine, relu_angles

ANGLES = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.29, 0.31, 1.0, 2.0, 3.0, math.pi)


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("theta", ANGLES)
def test_angles_are_those_of_theorem_4_4(theta, depth):
    """In 60 digits, of which the arccosines lose half."""
    with mpmath.workdps(60):
        embedding = float(relu_angles(theta, depth)[-1])
        gradient = float(mpmath.acos(gradient_cosine(theta, depth)))
    tolerance = 2e-15 if depth <= 1 else 1e-14
    assert float(theory.embedding_angle(theta, depth)) == pytest.approx(embedding, rel=tolerance)
    assert float(theory.gradient_angle(theta, depth)) == pytest.approx(gradient, rel=1e-14)


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_theorem_4_5_is_the_cosine_of_small_angles(depth):
    theta = 1e-7 / depth
    distance = 2 * math.sin(float(theory.gradient_angle(theta, depth)) / 2) ** 2
    assert 1 - theory.gradient_cosine_small(theta, depth) == pytest.approx(distance, rel=1e-5)


def test_loss_bound_is_equation_13():
    t = np.arange(6)
    np.testing.assert_allclose(theory.loss_bound(4.0, t, 3.0), 3 * 0.75**t, rtol=1e-14)
    assert theory.loss_bound(1.0, 0, 3.0) == 3  # 0^0: nothing has happened yet
    assert theory.loss_bound(1.0, 1, 3.0) == 0
    assert theory.loss_bound(math.inf, 100, 3.0) == 3


@pytest.mark.parametrize("distance", [1.0, 1e-2])
def test_the_bound_of_proposition_2_2_is_attained_by_the_vector_of_its_proof(distance):
    rng = np.random.default_rng(0)
    b = rng.standard_normal((2, 9))
    b[1] = 1.3 * b[0] + distance * b[1]
    norms = np.linalg.norm(b, axis=1)
    angle = math.acos(b[0] @ b[1] / norms.prod())
    v = norms[::-1] * [1, -1]
    attained = v @ b @ b.T @ v / (v @ v)
    assert theory.lambda_min_bound(*norms, angle) == pytest.approx(attained, rel=1e-9)


@pytest.mark.parametrize("angle", [-1e-9, 3.2, math.nan])
def test_angles_outside_0_to_pi_are_refused(angle):
    for angle_of in (theory.embedding_angle, theory.gradient_angle):
        with pytest.raises(theory.DomainError, match=r"lies in \[0, π\]"):
            angle_of([0.5, angle], 2)

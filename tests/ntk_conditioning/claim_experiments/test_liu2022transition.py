"""The experiments on liu2022transition against explicit Hessians, and the verdicts they lead to."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
import torch

from ntk_conditioning.claim_experiments import Setting
from ntk_conditioning.claim_experiments.liu2022transition import assemblies, normals
from ntk_conditioning.networks import activations
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network
from ntk_conditioning.transition.taylor import Expansion
from ntk_workflow.claims import FAILS, HOLDS, UNDER_A_CONDITION, Finding
from tests.ntk_conditioning.claim_experiments.findings import (
    KEYS,
    content_of,
    findings_on,
    measured,
)

SETTING = Setting(widths=[32, 128], depths=[1, 2], seeds=[1, 32])


# One worker measures for all of these tests.
pytestmark = pytest.mark.xdist_group("liu2022transition")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return measured("liu2022transition", SETTING)


@pytest.fixture(scope="module")
def findings(table: pd.DataFrame) -> Mapping[str, Finding]:
    return findings_on("liu2022transition", table)


def test_every_measurement_is_a_number_of_its_own(table: pd.DataFrame):
    assert np.isfinite(table["value"]).all()
    assert not table.duplicated(KEYS).any()


def test_every_claim_has_its_verdict(findings: Mapping[str, Finding]):
    kinds = {claim["name"]: claim["kind"] for claim in content_of("liu2022transition")["claims"]}
    bounded = {
        "lemma_2_vacuous": "for 13 sub-models or more",
        "theorem_3_share": "from 128 neurons on",
        "equation_18": "for few neurons after a wide layer",
        "theorem_4_printed": "for radii below 1",
        "equation_27_printed": "where 9 L_σ² is at least 1",
        "equation_27_last_step": "where 9 L_σ² is at least 1",
    }
    failing = {
        "assumption_1",
        "appendix_a_sharper",
        "appendix_b_bottleneck_printed",
        "equation_22_printed",
        "equation_18_gradient",
        "theorem_4_equal_widths",
        "linearity_narrow",
        "lemma_4_long_inputs",
    }
    for name, found in findings.items():
        if name in bounded:
            assert (found.verdict, found.condition) == (UNDER_A_CONDITION, bounded[name]), name
        else:
            assert found.verdict == (FAILS if name in failing else HOLDS), name
    errata = {name for name in findings if kinds[name] == "erratum"}
    assert errata == {name for name in findings if name.endswith("_printed")}


@pytest.mark.parametrize("name", ["tanh", "softplus"])
def test_quadratic_terms_of_neurons_are_those_of_the_network(name: str):
    rng = np.random.default_rng(3)
    model = draw_network(5, [7], activation=name, generator=rng)
    x = torch.from_numpy(rng.standard_normal(5))
    first, last = rng.standard_normal((7, 5)), rng.standard_normal(7)
    change = torch.from_numpy(np.concatenate([first.ravel(), last]))
    scaled = x.numpy() / math.sqrt(5)
    found = assemblies.quadratic_term(
        activations.get(name),
        model.weights[0].numpy() @ scaled,
        model.weights[1].numpy()[0],
        first @ scaled,
        last,
    )
    assert found == pytest.approx(Expansion(model, x).quadratic_term(change), rel=1e-10)


@pytest.mark.parametrize("kind", ["signs", "normal"])
def test_hessian_norms_of_blocks_are_those_of_dense_hessians(kind: str):
    """With one input of 1 the block of a neuron is all that it has."""
    found = assemblies._hessian_norm(activations.get("tanh"), kind, 6, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    w = torch.from_numpy(rng.standard_normal((6, 1)))
    u = rng.standard_normal(6) if kind == "normal" else rng.choice([-1.0, 1.0], 6)
    model = draw_network(1, [6], activation="tanh", generator=rng)
    model = model.with_weights([w, torch.from_numpy(u)[None]])
    expansion = Expansion(model, torch.ones(1, dtype=torch.float64))
    dense = torch.autograd.functional.hessian(expansion.value, expansion.origin)
    assert found == pytest.approx(float(torch.linalg.matrix_norm(dense, 2)), rel=1e-7)


def test_normals_turn_as_explicit_gradients_do():
    found, x = normals.network([9, 8, 7], "tanh", seed=1)
    moved = normals._moved(found, x)
    distance = sum(
        float((a - b).square().sum()) for a, b in zip(found.weights, moved.weights, strict=True)
    )
    assert math.sqrt(distance) == pytest.approx(normals.RADIUS)
    means = normals._turns(found, moved, x)
    for layer, mean in enumerate(means, start=1):
        here, there = (_explicit(one, x, layer) for one in (found, moved))
        cosines = torch.nn.functional.cosine_similarity(here, there, dim=1)
        assert mean == pytest.approx(float((1 - cosines).mean()), abs=1e-12)


def _explicit(model: FeedforwardNet, x: torch.Tensor, layer: int) -> torch.Tensor:
    """Return the gradients (m_l, p) of a layer's pre-activations, by autograd."""
    weights = [weight.clone().requires_grad_() for weight in model.weights]
    value = x
    for number, weight in enumerate(weights[:layer], start=1):
        z = model.scale(number) * weight @ value
        value = model.activation.function(z)
    used = weights[:layer]
    return torch.stack(
        [
            torch.cat([g.flatten() for g in torch.autograd.grad(each, used, retain_graph=True)])
            for each in z
        ]
    )

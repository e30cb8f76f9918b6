"""The numerical experiments against what is known without them, and the verdicts they lead to."""

import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from ntk_conditioning import tables
from ntk_conditioning.claim_experiments import Setting, followups
from ntk_conditioning.claim_experiments.agarwal2021deep import correlations, norms
from ntk_conditioning.claim_experiments.liu2022transition import hessians, normals
from ntk_conditioning.claim_experiments.liu2023relu import kernels, limits
from ntk_conditioning.claim_experiments.papers import measure
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.transition.feedforward import draw_network
from ntk_conditioning.transition.linearisation import Expansion
from ntk_workflow.claims.checking import check
from ntk_workflow.claims.pages import described
from ntk_workflow.claims.papers import load
from tests.ntk_conditioning.gradients import explicit_gradients

NAME = "claim_experiments"
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/claims_verdicts.md"
SETTINGS = {
    "liu2023relu": Setting(widths=[64, 256, 1024], depths=[1, 2, 4], seeds=[1, 2, 3, 4]),
    "agarwal2021deep": Setting(widths=[32, 512], depths=[1, 2, 110], seeds=range(1, 11)),
    "liu2022transition": Setting(widths=[32, 128], depths=[1, 2], seeds=range(1, 5)),
    "followups": Setting(widths=[64, 256], depths=[1, 2], seeds=range(1, 9)),
}
VERDICTS = dict(re.findall(r'<a id="(.+?)"></a>.*`\w+` \| . (.+?) \|', PAGE.read_text("utf-8")))
VERDICTS |= {"agarwal2021deep.lemma_1_with_epsilon": "holds"}  # at these sizes unconditionally


@cache
def table(paper: str) -> pd.DataFrame:
    return pd.DataFrame(measure(paper, SETTINGS[paper])).assign(paper=paper)


@pytest.mark.parametrize("paper", SETTINGS)
def test_measurements_are_distinct_numbers_and_every_claim_has_its_published_verdict(paper: str):
    rows = table(paper)
    assert np.isfinite(rows["value"]).all()
    assert not rows.duplicated([key for key in tables.get(NAME).keys if key in rows]).any()
    claims = [claim for claim in load(ROOT / f"papers/{paper}.yaml").claims if claim.table == NAME]
    assert len(claims) > (20 if paper == "followups" else 40)
    for claim in claims:
        verdict = described(claim, check(claim, {NAME: rows}))["verdict"]
        assert verdict == VERDICTS[f"{paper}.{claim.name}"], claim.name


def test_a_paper_without_experiments_and_too_few_widths_are_refused():
    with pytest.raises(UserError, match="no experiments for the paper 'other'"):
        list(measure("other", SETTINGS["liu2023relu"]))
    with pytest.raises(UserError, match="experiments need two widths or more"):
        Setting(widths=[64], depths=[1], seeds=[1])


def test_draws_of_seeds_a_thousand_apart_are_counted_once():
    settings = (Setting([16, 32], [1], seeds) for seeds in ([1, 1001, 2001], [1], [2001]))
    squares = [next(limits.networks(setting))[0]["value"] ** 2 for setting in settings]
    assert squares[0] == pytest.approx(np.mean(squares[1:]))


def test_correlations_of_unequal_norms_are_those_of_a_quadrature_in_the_plane():
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    u, v, mass = nodes[:, None], nodes, np.outer(weights, weights)
    distances, _ = norms.paths("tanh", np.array([0.5, 4.0]), (0.1, 1.3), 1, equal=0.0)
    for delta, after in zip((0.1, 1.3), distances[1], strict=True):
        one = np.tanh(math.sqrt(0.5) * u)
        two = np.tanh(2 * ((1 - delta) * u + math.sqrt(delta * (2 - delta)) * v))
        product, square, square2 = (np.sum(mass * f) for f in (one * two, one**2, two**2))
        assert 1 - after[0, 1] == pytest.approx(product / math.sqrt(square * square2), abs=1e-9)


def test_layers_covariances_and_windows_are_those_found_by_hand():
    rows = table("agarwal2021deep").query("statement == 'lemma_36_layers'")
    measured = rows.query("activation == 'quadratic'").set_index("at")["value"]
    for epsilon in correlations.EPSILONS:
        w, layers = 2.0, 0  # 1 - ρ goes to 1 - ρ less a quarter of its square
        while w > epsilon:
            w, layers = w - w**2 / 4, layers + 1
        promised = math.ceil(math.log(2 / epsilon) / -math.log1p(-epsilon / 4))
        assert measured[epsilon] == pytest.approx(layers / max(promised, 4))
    row = table("agarwal2021deep").query("statement == 'covariance_norm' and depth == 0")
    assert row["value"].item() == pytest.approx(1 / correlations.D, rel=1e-12)
    # of Eq. (10) at depth 1: 2 cos z = cos z (1 - z/pi) + cos g(z)
    row = table("liu2023relu").query("statement == 'pair_window_from' and depth == 1")
    z = math.radians(row["value"].item())
    cos_g = (1 - z / math.pi) * math.cos(z) + math.sin(z) / math.pi
    assert math.cos(z) * (1 - z / math.pi) + cos_g == pytest.approx(2 * math.cos(z), rel=1e-12)
    assert 60 < math.degrees(z) < 70
    deep = [row for part in kernels.expansions(Setting([16, 32], [64], [1])) for row in part]
    assert deep[-3]["value"] == pytest.approx(deep[-3]["corrected"], abs=1e-3)  # θ² at 1e-5


@pytest.mark.parametrize(("name", "kind"), [("tanh", "signs"), ("softplus", "normal")])
def test_two_layer_networks_of_input_1_bend_as_their_neurons_do(name: str, kind: str):
    sigma, rng = activations.get(name), np.random.default_rng(5)
    norm = hessians.two_layer_norm(sigma, kind, 6, np.random.default_rng(5))
    z = rng.standard_normal(6)
    v = rng.standard_normal(6) if kind == "normal" else rng.choice([-1.0, 1.0], 6)
    model = draw_network(1, [6], activation=name, generator=rng)
    model = model.with_weights([torch.from_numpy(z)[:, None], torch.from_numpy(v)[None]])
    expansion = Expansion(model, torch.ones(1, dtype=torch.float64))
    dense = torch.autograd.functional.hessian(expansion.value, expansion.origin)
    assert norm == pytest.approx(float(torch.linalg.matrix_norm(dense, 2)), rel=1e-7)
    dz, dv = change = rng.standard_normal((2, 6))
    expected = expansion.quadratic_term(torch.from_numpy(change.ravel()))
    assert hessians.quadratic_term(sigma, z, v, dz, dv) == pytest.approx(expected, rel=1e-10)


def test_normals_turn_as_explicit_gradients_do():
    net, x = normals.network((9, 8, 7), "tanh", seed=1)
    moved = normals.moved(net, x)
    squares = [(a - b).square().sum() for a, b in zip(net.weights, moved.weights, strict=True)]
    assert math.sqrt(sum(squares)) == pytest.approx(normals.RADIUS)
    for layer, mean in enumerate(normals.rotations(net, moved, x), start=1):
        here, there = (explicit_gradients(one, x, layer) for one in (net, moved))
        cosines = torch.nn.functional.cosine_similarity(here, there, dim=1)
        assert mean == pytest.approx(float((1 - cosines).mean()), abs=1e-12)


def test_a_pair_that_no_unit_tells_apart_is_mapped_linearly():
    rows = table("liu2023relu").query("statement == 'separation' and at < 2e-6")
    ratios = rows.groupby(["depth", "width", "seed"])["value"].agg(["min", "max", "size"])
    assert len(ratios) == 2 * 3 * 4
    assert (ratios["size"] > 2).all()
    assert (ratios["max"] / ratios["min"]).to_numpy() == pytest.approx(1, abs=1e-6)
    kappas = table("liu2023relu").query("statement == 'separation_kappa_exponent'")
    expected = np.where(kappas["width"].notna(), -2, -1)  # infinitely wide without a width
    assert set(expected) == {-2, -1}
    assert kappas["value"].to_numpy() == pytest.approx(expected, abs=0.05)


def test_kernels_of_branches_are_those_of_wide_random_networks():
    m, rng = 512, np.random.default_rng(3)
    x = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.6, 0.0, -0.8]])

    def outputs(*weights: torch.Tensor) -> torch.Tensor:
        u, (*layers, last) = torch.from_numpy(np.pad(x, [(0, 0), (0, m - 3)])), weights
        for inner, outer in (layers[:2], layers[2:]):
            u = u + (u @ inner.T).relu() @ outer.T * (math.sqrt(2) / m)
        return (u @ last.T).flatten()

    kernels = []
    for _ in range(8):
        weights = tuple(draw_weights(m, depth=4, width=m, outputs=1, generator=rng))
        parts = torch.autograd.functional.jacobian(outputs, weights)
        kernels.append(sum(part.flatten(1) @ part.flatten(1).T for part in parts))
    _, ntk = followups.residual(x, depth=2, square=1.0)
    assert torch.stack(kernels).mean(0).numpy() == pytest.approx(ntk, abs=0.5)

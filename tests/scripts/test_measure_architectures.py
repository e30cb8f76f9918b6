from pathlib import Path

import measure_architectures
import numpy as np
import pandas as pd
import pytest
import torch
from torch.func import functional_call, jacrev, vmap

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.networks import activations
from ntk_workflow.trainings.networks import initial_network
from tests.support.clone import ROOT
from tests.support.sources import write_prepared

OWN = f"--own-network mine {ROOT}/docs/examples/own_network.py build"


DATA, OUTPUT = Path("tiny.npz"), Path("rows.parquet")


def measure(*networks: str, more=""):
    """Measure networks, given as words, and return the rows."""
    write_prepared(DATA, n=9, d=32)
    words = f"--data {DATA} --dataset tiny --activation relu --samples 6 --seeds 1 2"
    words += f" --image 4 4 2 --output {OUTPUT} {more}"
    words += "".join(f" --network {network}" for network in networks)
    assert measure_architectures.main(words.split()) == 0
    return tables.read(OUTPUT, "architectures").to_pandas()


def test_rows_are_those_of_the_networks_by_their_jacobians():
    """On samples of equal norm, and for images of a mean square of 1 for a pixel."""
    rows = measure("mlp 8 0 2", "resnet_batch_norm 4 6", "mine 8 2", more=OWN)
    assert (rows["n"] == 6).all()
    assert rows.groupby("model").size().to_dict() == {"mine": 2, "mlp": 4, "resnet_batch_norm": 2}
    x = load_prepared(DATA).x
    wanted = rows.query("model == 'resnet_batch_norm' and seed == 2").iloc[0]
    size = {"depth": 6, "width": 4, "activation": activations.get("relu"), "image": (4, 4, 2)}
    drawn = draw_on_sphere("tiny", x, 6, seed=1)
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(1)
    network, seen = initial_network("resnet_batch_norm", 4 * drawn, seed=2, **size)
    assert seen.square().sum(1).mean((1, 2)).numpy() == pytest.approx(1)
    weights = dict(network.named_parameters())
    assert wanted["parameters"] == sum(weight.numel() for weight in weights.values())
    jacobian = vmap(
        jacrev(lambda w, one: functional_call(network, w, one[None])[0][0, 0]), (None, 0)
    )({name: weight.detach() for name, weight in weights.items()}, seen)
    flat = torch.cat([part.flatten(1) for part in jacobian.values()], 1)
    k = (flat @ flat.T).numpy()
    assert wanted["lambda_max"] == pytest.approx(np.linalg.eigvalsh(k)[-1], rel=1e-10)
    norms = np.sqrt(np.diag(k))
    angles = np.degrees(np.arccos((k / np.outer(norms, norms))[np.triu_indices(6, 1)]))
    assert wanted["min_angle"] == pytest.approx(angles.min(), rel=1e-8)


def test_a_kind_of_several_widths_has_rows_of_each_and_one_of_infinite_width():
    rows = measure("conv 4 1", "conv 8 1", more="--infinite-width conv")
    apart = pd.concat([measure("conv 4 1"), measure("conv 8 1")], ignore_index=True)
    finite = rows["kernel"] == "empirical_ntk"
    pd.testing.assert_frame_equal(rows[finite].reset_index(drop=True), apart, check_dtype=False)
    (wide,) = rows[~finite].to_dict("records")
    assert pd.isna(wide["width"])
    assert apart["lambda_max"].mean() == pytest.approx(wide["lambda_max"], rel=0.9)

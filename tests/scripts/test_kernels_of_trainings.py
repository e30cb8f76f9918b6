"""Kernels of trainings: those of the very networks and samples, their rates and predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import predict_training
import pytest
import torch
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.training.descent import rounded_down
from ntk_conditioning.training.prediction import parted, times
from ntk_workflow.trainings import networks
from ntk_workflow.trainings.networks import initial_network
from tests.support.sources import write_prepared
from tests.support.trainings import training_words

SEEDS = (1, 5)
TRAIN, CURVES, KERNELS = Path("train.npz"), Path("curves.parquet"), Path("kernels.parquet")


def kernel(**options: Any) -> list[dict[str, Any]]:
    usual = {"data": TRAIN, "output": CURVES, "initial_kernels_output": KERNELS, "seeds": SEEDS}
    usual |= {"experiment": "fig3", "dataset": "tiny", "activation": "relu", "depth": 2}
    usual |= {"width": 16, "epochs": 1, "learning_rates": (0.5,), "rate_unit": "critical"}
    assert train_network.main(training_words(usual | options)) == 0
    return tables.read(KERNELS, "training_kernels").to_pylist()


@pytest.mark.parametrize(("most", "share", "n"), [(256, 0, 20), (8, 0, 20), (8, 0.3, 14)])
def test_a_kernel_is_the_ntk_of_the_networks_and_samples_that_are_trained(
    most, share, n, monkeypatch
):
    """All samples in another order: eigenvalues within 1e-12, thousands of roundings."""
    write_prepared(TRAIN)
    monkeypatch.setattr(networks, "MOST_SAMPLES", most)
    table = kernel(activation="tanh", test_share=share)
    assert [row["seed"] for row in table] == [*SEEDS]
    for row in table:
        seed, near = row["seed"], {"abs": 0, "rel": 1e-12}
        held = generator(seed, "data").spawn(2)[1].permutation(20)[: 20 - n]
        block = np.delete(load_prepared(TRAIN).x, held, axis=0)
        block = torch.from_numpy(block[generator(seed, "blocks").permutation(n)[:most]])
        mlp = init_mlp(4, depth=2, width=16, activation="tanh", generator=generator(seed, "init"))
        expected = conditioning(empirical.ntk(mlp, block).numpy())
        assert row["lambda_max"] == pytest.approx(expected.lambda_max, **near)
        # The smallest eigenvalue is known to so many digits fewer as kappa has.
        assert row["kappa"] == pytest.approx(expected.kappa, abs=0, rel=1e-14 * expected.kappa)
        assert row["lambda_min"] == pytest.approx(row["lambda_max"] / row["kappa"], **near)
        rate = 2 * len(block) / expected.lambda_max
        assert row["critical_learning_rate"] == pytest.approx(rate, **near)
        assert (row["n"], row["n_train"], row["width"]) == (len(block), n, 16)
        assert (row["activation"], row["depth"], row["model"]) == ("tanh", 2, "mlp")
    for row in kernel(depth=0):  # of a rank below the number of samples
        assert row["kappa"] is row["lambda_min"] is None


@pytest.mark.parametrize("model", ["fc_layer_norm", "resnet_fixup"])
def test_the_kernel_of_modules_has_the_factors_of_their_rates(model):
    x = np.random.default_rng(3).standard_normal((9, 16))
    save_prepared(TRAIN, PreparedSamples("tiny", x, np.arange(9), "none"))
    size: dict[str, Any] = {"depth": 4, "width": 4, "image": (4, 4, 1)}
    (row,) = kernel(model=model, seeds=(1,), **size)
    network, seen = initial_network(model, x, seed=1, activation=activations.get("relu"), **size)
    k = torch.zeros(9, 9, dtype=torch.float64)
    for factor, parameters in network.rate_groups().items():
        given: Any = {"inputs": parameters, "materialize_grads": True}
        gradients = [torch.autograd.grad(network(seen)[0][i], **given) for i in range(9)]
        jacobian = torch.stack([torch.cat([g.flatten() for g in each]) for each in gradients])
        k += factor * jacobian @ jacobian.T
    assert row["lambda_max"] == pytest.approx(torch.linalg.eigvalsh(k)[-1].item(), rel=1e-10)
    assert row["critical_learning_rate"] == pytest.approx(18 / row["lambda_max"], rel=1e-14)


def test_a_kernel_is_of_samples_as_augmentation_has_them_with_colours_first():
    x, given = np.random.default_rng(3).standard_normal((9, 4, 3)), {"model": "fc", "seeds": (1,)}
    largest = []
    for values, augmentation in ((x, "crop_flip"), (x.swapaxes(1, 2), "none")):
        data = PreparedSamples("tiny", values.reshape(9, 12), np.arange(9), "none")
        save_prepared(TRAIN, data)
        (row,) = kernel(image=(2, 2, 3), augmentation=augmentation, **given)
        largest.append(row["lambda_max"])
    assert largest[0] == pytest.approx(largest[1], rel=1e-12)


@pytest.mark.parametrize("unit", ["critical", "smallest_critical"])
def test_rates_are_multiples_of_every_seeds_own_critical_rate_or_of_the_smallest(unit):
    """Also where a job trains a single seed."""
    write_prepared(TRAIN)
    relative = {"learning_rates": (0.5, 1.0), "rate_unit": unit}
    table, every = kernel(**relative), tables.read(CURVES, "training").to_pylist()
    critical = {row["seed"]: row["critical_learning_rate"] for row in table}
    others: dict[str, Any] = {}
    if unit == "smallest_critical":
        critical = dict.fromkeys(SEEDS, min(critical.values()))
        others = {"critical_seeds": SEEDS}
    rates = [(row["seed"], row["relative_rate"], row["learning_rate"]) for row in every[::2]]
    assert rates == [(s, r, rounded_down(r * critical[s])) for s in SEEDS for r in (0.5, 1)]
    for seed, row in zip(SEEDS, table, strict=True):
        assert kernel(**relative, seeds=(seed,), **others) == [row]
        of_seed = [each for each in every if each["seed"] == seed]
        assert tables.read(CURVES, "training").to_pylist() == of_seed


@pytest.mark.parametrize("method", ["eigenvectors", "flow"])
@pytest.mark.parametrize("model", [{}, {"model": "residual_mlp"}], ids=["mlp", "modules"])
def test_wide_networks_are_predicted_and_compared_with_their_curves(method, model):
    write_prepared(TRAIN)
    usual = {"data": TRAIN, "experiment": "gd", "dataset": "tiny"}
    usual |= {"activation": "tanh", "width": 512, "seeds": (1, 5), "epochs": 6}
    usual |= {"dtype": "float64", "learning_rates": (0.01, 0.02)} | model
    if method == "eigenvectors":
        outputs = "classes" if model else "scalar"
        usual |= {"loss": "square", "outputs": outputs, "batch_size": "all"}
    curves = tuple(Path(f"depth-{depth}.parquet") for depth in (1, 2))
    for depth, output in enumerate(curves, 1):
        train_network.main(training_words(usual | {"depth": depth, "output": output}))
    given = usual | {"training": curves, "output": Path("predicted.parquet")}
    assert predict_training.main(training_words(given)) == 0
    rows = tables.read(given["output"], "predictions").to_pylist()
    single = given | {"dtype": "float32", "output": Path("single.parquet")}
    assert predict_training.main(training_words(single)) == 0
    # whatever the training's precision is, a prediction has the digits of float64
    assert single["output"].read_bytes() == given["output"].read_bytes()
    assert len(rows) == 8
    for row in rows:
        assert row["method"] == method
        real, predicted = row["train_loss"], row["predicted_loss"]
        np.testing.assert_allclose(predicted, real, rtol=0.1)  # 1/sqrt(width) is 0.04
        assert row["epochs_to_half"] == times(row["epochs"], real)["epochs_to_half"]
        assert row["parted_epoch"] == parted(row["epochs"], real, predicted)
        assert row["label_energy"][-1] == pytest.approx(1)
        assert 0 <= row["alignment"] <= 1
        assert 1 <= row["effective_kappa"] <= row["kappa"] * (1 + 1e-9)  # two solvers

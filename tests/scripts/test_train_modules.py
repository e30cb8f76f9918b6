"""Networks of torch's modules by the program: images, held-out samples, turns, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.networks.mlp import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.training import TRAINING
from ntk_conditioning.training import Descent, Member, ModuleEnsemble, Part, make_loss, make_network
from ntk_workflow.trainings import data, networks
from ntk_workflow.trainings.loop import train
from tests.scripts.test_train_network import arguments

IMAGE = (4, 3, 2)
OPTIONS: dict[str, Any] = {
    "model": "resnet_batch_norm",
    "depth": 8,
    "width": 2,
    "image": IMAGE,
    "test": None,
    "test_share": 0.3,
    "momentum": 0.9,
    "epochs": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    x, y = chance.standard_normal((30, 24)), np.arange(30) % 3
    save_prepared(tmp_path / "train.npz", PreparedSamples("tiny", x, y, "none"))
    return tmp_path


def rows(folder: Path, *flags: str, **options: Any) -> list[dict[str, Any]]:
    assert train_network.main(arguments(folder, *flags, **OPTIONS | options)) == 0
    return tables.read(folder / "out/depth-1.parquet", TRAINING).to_pylist()


def test_the_curves_are_those_of_an_ensemble_of_modules(folder):
    """An image's rows come first, then columns, then colours; torch wants the colours first."""
    descent = {"augmentation": "crop_flip", "weight_decay": 0.01, "decay_at": 1}
    found = rows(folder, **descent, seeds=5, learning_rates=0.1, dtype="float64")
    args = train_network.parser().parse_args(arguments(folder, **OPTIONS | {"seeds": 5}))
    train_part, test_part, _ = data.labelled_samples(args)

    def part(labelled: Any) -> Part:
        import torch

        images = np.transpose(labelled.x.reshape(-1, 4, 3, 2), (0, 3, 1, 2))
        return Part(torch.from_numpy(images.copy()), torch.from_numpy(labelled.y))

    import torch

    ensemble = ModuleEnsemble(
        lambda chance: make_network(
            "resnet_batch_norm",
            chance,
            d=24,
            image=IMAGE,
            depth=8,
            width=2,
            activation=activations.get("relu"),
            outputs=3,
            dtype=torch.float64,
        ),
        make_loss("cross_entropy", outputs="classes", classes=3, dtype=torch.float64),
        [Member(5, 0.1)],
        {5: part(train_part[5])},
        {5: part(test_part[5])},
        epochs=2,
        batch=8,
        descent=Descent(0.9, 0.01, (1,), augmentation="crop_flip"),
    )
    while not ensemble.finished:
        ensemble.advance()
    for name, values in ensemble.metrics.items():
        column = np.array([np.nan if row[name] is None else row[name] for row in found])
        np.testing.assert_array_equal(column, values[:, 0])
    recorded = {
        "model": "resnet_batch_norm",
        "image": "4 3 2",
        "n": 21,
        "n_test": 9,
        "momentum": 0.9,
        "weight_decay": 0.01,
        "decay_at": "1",
        "decay_factor": 0.1,
        "augmentation": "crop_flip",
        "mixed_precision": False,
    }
    assert all(row.items() >= recorded.items() for row in found)


def test_every_seed_holds_out_its_own_samples_and_trains_on_the_others(folder):
    args = train_network.parser().parse_args(arguments(folder, **OPTIONS | {"samples": 20}))
    whole, _ = data.training_samples(args)
    train_parts, test_parts, classes = data.labelled_samples(args)
    assert classes == 3
    for seed in (1, 5):
        kept, held = train_parts[seed].x, test_parts[seed].x
        assert (len(kept), len(held)) == (14, 6)
        assert {*map(tuple, kept)} | {*map(tuple, held)} == {*map(tuple, whole[seed].x)}
    first, second = (test_parts[seed].x for seed in (1, 5))
    assert not np.array_equal(first, second)
    again = data.labelled_samples(args)[1]
    np.testing.assert_array_equal(again[1].x, first)
    # Not the stream that draws samples, nor that of a Gaussian dataset of the same seed.
    assert generator(1, "data").spawn(2)[1].random() != generator(1, "data").spawn(1)[0].random()


def test_large_networks_take_turns_with_the_same_result(folder, monkeypatch, capsys):
    usual = rows(folder)
    monkeypatch.setattr(networks, "seeds_in_turn", lambda _: 1)
    kept = {"checkpoints": folder / "kept", "checkpoint_epochs": 1}
    assert rows(folder) == usual
    trained: list[Any] = []

    def stop_in_the_second(args: Any, ensemble: Any, checkpoints: Any) -> int | None:
        trained.append(args.seeds)
        return 15 if args.seeds == [5] else train(args, ensemble, checkpoints)

    monkeypatch.setattr(train_network, "train", stop_in_the_second)
    assert train_network.main(arguments(folder, **OPTIONS | kept)) == 143
    monkeypatch.setattr(train_network, "train", train)
    capsys.readouterr()
    assert rows(folder, **kept) == usual
    assert trained == [[1], [5]]
    told = capsys.readouterr().err
    assert "going on from a checkpoint in epoch 3" in told  # the first seed's, which was done
    assert "afresh" not in told
    assert not [*(folder / "kept").rglob("*.npz")]


def test_two_calls_write_the_same_bytes_on_any_number_of_threads(folder):
    found = []
    for threads in (1, 2):
        rows(folder, threads=threads, augmentation="crop_flip")
        found.append((folder / "out/depth-1.parquet").read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "flags", "problem"),
    [
        ({"depth": 9}, (), "--depth 9: resnet_batch_norm has depths 6 n + 2, such as 8, 14"),
        ({"image": None}, (), "images are needed; give --image HEIGHT WIDTH COLOURS"),
        ({"image": (4, 4, 2)}, (), "--image: 4 x 4 x 2 is not the 24 features of a sample"),
        ({"model": "mlp"}, (), "mlp is trained by plain gradient descent; leave momentum"),
        (
            {"model": "fc", "image": None, "augmentation": "crop_flip"},
            (),
            "images are needed; give --image",
        ),
        ({"batch_size": 20}, (), "--batch-size 20: an epoch of 21 samples ends with a step of one"),
        ({"dtype": "float64"}, ("--mixed-precision",), "--mixed-precision needs --dtype float32"),
        ({"test_share": 0.99}, (), "--test-share 0.99 of 30 samples is 30; leave at least 2"),
        ({"test_share": 1}, (), "argument --test-share: 1 is not below 1"),
        ({"test": "train.npz"}, (), "--test and --test-share exclude each other; give one"),
        ({"momentum": -0.1}, (), "argument --momentum: -0.1 is not a number from 0 on"),
        (
            {"learning_rates": None, "relative_rates": 1, "kernel": "k.parquet"},
            (),
            "--relative-rates: critical rates are known of mlp, not resnet_batch_norm",
        ),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, options, flags, problem):
    assert train_network.main(arguments(folder, *flags, **OPTIONS | options)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train_network: error: ")
    assert problem in line
    assert not (folder / "out").exists()

import itertools
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import NetworkSpec, Split, Training
from ntk_workflow.trainings import loop
from tests.support.sources import write_prepared
from tests.support.trainings import SETTINGS, finish, training_words

LABELS = (3, 7, 40)
SEEDS, RATES = (1, 5), (0.1, 0.3)
IMAGE = (4, 3, 2)
RESNET = {"model": "resnet_batch_norm", "depth": 8, "width": 2, "image": IMAGE}
RESNET |= {"test": None, "test_share": 0.3, "momentum": 0.9, "epochs": 2}
EXAMPLE = Path(__file__).parents[2] / "docs/examples/own_network.py"
OWN = RESNET | {"model": "mine", "model_file": EXAMPLE, "depth": 2, "width": 4}
OUTPUT, TRAIN, TEST = Path("out/depth-1.parquet"), Path("train.npz"), Path("test.npz")
write_samples = partial(write_prepared, n=30, labels=LABELS)
write_test = partial(write_prepared, TEST, n=11, seed=1, labels=LABELS[1:])


@pytest.fixture(autouse=True)
def _samples(folder) -> None:
    write_samples(TRAIN)
    write_samples(Path("images.npz"), d=24)
    write_test()


def arguments(**options: Any) -> list[str]:
    data = "images.npz" if "image" in options else TRAIN
    given = {"data": data, "test": TEST, "output": OUTPUT, "experiment": "fig3"}
    given |= {"dataset": "tiny", "activation": "relu", "depth": 1, "width": 6, "seeds": SEEDS}
    given |= {"learning_rates": RATES, "batch_size": 8, "epochs": 3}
    return training_words(given | options)


def call(**options: Any) -> bytes:
    assert train_network.main(arguments(**options)) == 0
    return options.get("output", OUTPUT).read_bytes()


def rows(**options: Any) -> list[dict[str, Any]]:
    call(**options)
    return tables.read(OUTPUT, "training").to_pylist()


def test_there_is_a_row_for_every_network_and_evaluated_epoch():
    table = rows(evaluate_every=2)
    expected = [(s, r, e) for s in SEEDS for r in RATES for e in (0, 2, 3)]
    assert [(row["seed"], row["learning_rate"], row["epoch"]) for row in table] == expected
    common = {"experiment": "fig3", "dataset": "tiny", "model": "mlp", "activation": "relu"}
    common |= {"depth": 1, "width": 6, "input_scale": "none", "loss": "cross_entropy", "classes": 3}
    common |= {"outputs": "classes", "batch_size": 8, "n": 30, "n_test": 11, "dtype": "float32"}
    for row in table:
        assert row.items() >= (common | {"d": 4, "steps": 4 * row["epoch"]}).items()
        assert (row["gradient_norm"] is None) == (row["epoch"] == 0)
    whole = rows(batch_size="all", test=None)
    assert [row["steps"] for row in whole[:4]] == [0, 1, 2, 3]
    for row in whole:
        assert (row["batch_size"], row["n_test"], row["test_loss"]) == (30, 0, None)


def part(data: PreparedSamples) -> Split:
    """Return samples with classes from 0; of images, torch wants the colours before the rows."""
    x = data.x
    if x.shape[1] > 4:
        x = np.transpose(x.reshape(-1, *IMAGE), (0, 3, 1, 2)).copy()
    return Split(torch.from_numpy(x), torch.tensor([LABELS.index(y) for y in data.y]))


def assert_curves(table, kind, network, loss, train, test, **descent):
    make = partial(make_network, network.pop("model"), **network, dtype=torch.float64)
    specs = [NetworkSpec(seed, rate) for seed in SEEDS for rate in RATES]
    ensemble = kind(make, loss, specs, train, test, descent=Descent(batch_size=8, **descent))
    for name, values in finish(ensemble).metrics.items():
        column = np.array([np.nan if row[name] is None else row[name] for row in table])
        np.testing.assert_array_equal(column.reshape(values.shape[::-1]), values.T)


def test_the_curves_are_those_of_an_ensemble():
    """A test set is scaled like its training set, and has its numbers of classes, if not all."""
    write_samples(TRAIN, scaling="standardize")
    write_test(scaling="standardize")
    data = load_prepared(TRAIN), load_prepared(TEST, like=TRAIN)
    parts = (Split(part(each).x * np.sqrt(2 / 4), part(each).y) for each in data)
    splits = [dict.fromkeys(SEEDS, samples) for samples in parts]
    network: Any = {"model": "mlp", "d": 4, "depth": 1, "width": 6, "outputs": 1}
    network["activation"] = activations.get("tanh")
    loss = make_loss("square", outputs="scalar", classes=3, dtype=torch.float64)
    options = {"loss": "square", "outputs": "scalar", "dtype": "float64", "activation": "tanh"}
    table = rows(**options, input_scale="fan_in")
    assert_curves(table, Ensemble, network, loss, *splits, epochs=3)


def test_the_curves_of_modules_are_those_of_their_ensemble():
    """Every seed holds out samples of its own, by a stream that draws nothing else."""
    descent: Any = {"augmentation": "crop_flip", "weight_decay": 0.01, "decay_at": (1,)}
    options = RESNET | descent | {"dtype": "float64"}
    table, data = rows(**options), load_prepared(Path("images.npz"))
    held = {s: generator(s, "data").spawn(2)[1].permutation(30)[:9] for s in SEEDS}
    assert {*held[1]} != {*held[5]}
    test = {seed: part(data.rows(np.sort(chosen))) for seed, chosen in held.items()}
    train = {s: part(data.rows(np.delete(np.arange(30), chosen))) for s, chosen in held.items()}
    network: Any = {"model": "resnet_batch_norm", "d": 24, "image": IMAGE, "depth": 8, "width": 2}
    network |= {"outputs": 3, "activation": activations.get("relu")}
    loss = make_loss("cross_entropy", outputs="classes", classes=3, dtype=torch.float64)
    assert_curves(table, Training, network, loss, train, test, **descent, epochs=2, momentum=0.9)
    assert table == [row for seed in SEEDS for row in rows(**options, seeds=(seed,))]
    recorded = {"model": "resnet_batch_norm", "image": "4 3 2", "n": 21, "n_test": 9}
    recorded |= {"momentum": 0.9, "decay_at": "1", "decay_factor": 0.1, "mixed_precision": False}
    assert all(row.items() >= (recorded | {"augmentation": "crop_flip"}).items() for row in table)


@pytest.mark.parametrize("network", [{}, RESNET, OWN], ids=["mlp", "modules", "own"])
def test_two_calls_write_the_same_bytes(network):
    usual = call(**network)
    assert call(**network, threads=2, checkpoints="kept") == usual
    assert call(**network, learning_rates=RATES[::-1]) == usual
    assert call(**network | {"width": 8}) != usual


@pytest.mark.parametrize("network", [{}, RESNET], ids=["mlp", "modules"])
def test_kernels_along_training_are_a_table_beside_the_same_curves(network):
    along = {"kernels_along": (12, 3), "kernels_output": "along.parquet"}
    assert call(**network, **along) == call(**network)
    table = tables.read(Path("along.parquet"), "kernels_along_training").to_pylist()
    measured = [(s, r, e) for s in SEEDS for r in RATES for e in (0, 1, network.get("epochs", 3))]
    assert [(row["seed"], row["learning_rate"], row["epoch"]) for row in table] == measured
    for row in table:
        assert (row["n"], row["n_train"]) == (12, 21 if network else 30)
        assert row["steps"] == row["epoch"] * (3 if network else 4)
        assert (row["kernel_change"] == 0) == (row["epoch"] == 0)
        assert all(row[name] > 0 for name in ("lambda_max", "alignment", "sharpness"))


def test_every_seed_draws_its_own_samples():
    """Those of `prepare_dataset`; classes are counted in the whole dataset."""
    drawn = rows(samples=12, test=None)
    assert {(row["n"], row["classes"]) for row in drawn} == {(12, 3)}
    whole, singly = load_prepared(TRAIN), []
    for seed in SEEDS:
        chosen = draw("tiny", len(whole.x), 12, generator=seed_stream(seed))
        save_prepared(Path("part.npz"), whole.rows(chosen))
        singly += rows(data="part.npz", seeds=(seed,), test=None)
    assert drawn == singly
    assert {row["classes"] for row in rows(samples=2, test=None)} == {3}


def test_a_rate_that_diverges_is_flagged_and_changes_no_other_row():
    divergent = {"loss": "square", "activation": "leaky_relu-0.2", "epochs": 6}
    usual = rows(**divergent, learning_rates=(0.1,))
    table = rows(**divergent, learning_rates=(1e6, 0.1))
    assert [row for row in table if row["learning_rate"] == 0.1] == usual
    for seed in SEEDS:
        wild = [row for row in table if (row["seed"], row["learning_rate"]) == (seed, 1e6)]
        flags = [row["diverged"] for row in wild]
        assert flags == sorted(flags)
        assert (flags[0], flags[5]) == (False, True)
        assert {row[name] for row in wild if row["diverged"] for name in Ensemble.METRICS} == {None}


OTHER_SAMPLES = {"bare": {"labels": ()}, "another_label": {"labels": (3, 8, 40)}}
OTHER_SAMPLES |= {"five": {"d": 5}, "one_class": {"labels": (7,)}}
MISTAKES = [
    ({"learning_rates": None}, "--settings: missing 1 required keyword-only argument: 'learn"),
    ({"settings": "epoch=3"}, "--settings: got an unexpected keyword argument 'epoch'"),
    ({"outputs": "scalar"}, "cross_entropy needs an output for each class; set outputs to"),
    ({"data": "bare.npz"}, "bare.npz has no labels, and training needs them"),
    ({"test": "another_label.npz"}, "another_label.npz has label 8, which no sample of"),
    ({"test": "five.npz"}, "5 features"),
    ({"data": "one_class.npz", "test": None}, "the data have 1 class; a classifier needs 2 or"),
    (OWN | {"model_file": None}, "no network 'mine'; built in are mlp, "),
    (OWN | {"image": None}, "build() gives a network that fails on 2 samples of shape (24,)"),
    ({"model": "fc_batch_norm", "batch_size": 1}, "samples: batch norms need two"),
    ({"depth": 2, "width": 3_000_000}, "; lower kernel_size, samples or width"),
]


@pytest.mark.parametrize(("options", "problem"), MISTAKES)
def test_a_mistake_is_one_line(refusal, options, problem):
    for name, samples in OTHER_SAMPLES.items():
        write_samples(Path(f"{name}.npz"), **samples)
    words = arguments(**{k: v for k, v in options.items() if k != "settings"})
    assert problem in refusal(train_network, [*words, *options.get("settings", "").split()])


def stop(steps: int, number: int = signal.SIGTERM, **options: Any) -> None:
    """Have a call stopped in the step after so many, which leaves a checkpoint and no output."""
    left = itertools.count(steps, -1)
    with pytest.MonkeyPatch.context() as patched:
        for ensemble in (Ensemble, Training):

            def step(*given, descend=ensemble._descend, **options):
                if next(left) == 0:
                    signal.getsignal(number)(number, None)  # as Python does when one has come
                return descend(*given, **options)

            patched.setattr(ensemble, "_descend", step)
        assert train_network.main(arguments(**options, checkpoints="kept")) == 128 + number
    assert not OUTPUT.exists()


#: With momentum, running statistics and augmentation.
MODULES = {"model": "fc_batch_norm", "depth": 2, "width": 4, "image": IMAGE, "test": None}
MODULES |= {"augmentation": "crop_flip", "momentum": 0.9, "decay_at": (1, 2)}
MEASURED = {"momentum": 0.9, "kernels_along": (12, 30), "kernels_output": "along.parquet"}


@pytest.mark.parametrize(
    ("steps", "number", "epoch", "options", "seconds"),
    [
        (4 * 4 - 1, signal.SIGINT, 2, {}, 300),  # of four networks, 30 samples by 8
        (2 * 4 * 4 + 3, signal.SIGTERM, 3, {}, 1e-9),
        (2 * 4 * 4 + 3, signal.SIGTERM, 3, MODULES, 300),
        (2 * 4 * 4 + 3, signal.SIGTERM, 3, MEASURED, 300),
    ],
)
def test_a_stopped_call_leaves_a_checkpoint_at_once_and_the_next_goes_on(
    capsys, monkeypatch, steps, number, epoch, options, seconds
):
    """Also of samples that were moved, or with other threads; the bytes are the same."""
    monkeypatch.setattr(loop, "SECONDS", seconds)
    monkeypatch.setattr(loop, "SHARE", 1)  # saving takes half of the time
    usual, along = call(**options, output=Path("usual.parquet")), Path("along.parquet")
    usual_along = along.read_bytes() if along.exists() else b""
    stop(steps, number, **options)
    stopped = f" stopped by a signal in epoch {epoch}; call again to go on\n"
    assert capsys.readouterr().err.endswith(stopped)
    data = Path("images.npz" if "image" in options else "train.npz").rename("moved.npz")
    assert call(**options, data=data, threads=2, checkpoints="kept") == usual
    assert not usual_along or along.read_bytes() == usual_along
    assert f" going on from a checkpoint in epoch {epoch}\n" in capsys.readouterr().err
    assert not [*Path("kept").iterdir()]


#: A value, other than that of `BASE`, of each thing that a training depends on.
BASE = {"model": "fc_layer_norm", "image": IMAGE, "critical_seeds": SEEDS, "test": None}
BASE |= {"rate_unit": "smallest_critical", "epochs": 2, "loss": "square"}
OTHERS: dict[str, Any] = {"experiment": "fig4", "dataset": "small", "model": "fc", "depth": 2}
OTHERS |= {"activation": "tanh", "width": 7, "seeds": (5, 1), "samples": 20, "test_share": 0.2}
OTHERS |= {"input_scale": "fan_in", "image": (3, 4, 2), "loss": "cross_entropy", "tf32": True}
OTHERS |= {"outputs": "scalar", "batch_size": 10, "epochs": 3, "evaluate_every": 2}
OTHERS |= {"learning_rates": (0.1, 0.2), "rate_unit": "critical", "critical_seeds": (1, 5, 7)}
OTHERS |= {"dtype": "float64", "momentum": 0.5, "weight_decay": 0.1, "decay_at": (1,)}
OTHERS |= {"decay_factor": 0.5, "augmentation": "crop_flip", "mixed_precision": True}
OTHERS |= {"kernels_along": (6, 2), "data": "more.npz", "test": "images.npz", "code": "edited"}
OTHERS["model_function"] = "make"


def test_a_checkpoint_depends_on_every_setting_on_the_data_and_the_code(monkeypatch):
    """The rates follow from the data; the device is that of a machine."""
    write_samples(Path("more.npz"), d=24, seed=7)
    noted: dict[str, Any] = {}
    usual = train_network.digest
    monkeypatch.setattr(train_network, "digest", lambda on: noted.update(on) or usual(on))
    monkeypatch.setattr(train_network, "train", lambda _, path, **__: noted.update(path=path) or 2)

    def entries(**options: Any) -> dict[str, Any]:
        if "kernels_along" in options:
            options["kernels_output"] = "along.parquet"
        assert train_network.main(arguments(**BASE | options, checkpoints="kept")) == 130
        return dict(noted)

    base = entries()
    for name, value in OTHERS.items():
        changed = entries(**{name: value})
        assert changed[name] != base[name], name
        assert changed["path"] != base["path"], name
    assert base.keys() - OTHERS.keys() == {"path", "rates", "device"}
    assert OTHERS.keys() >= SETTINGS


def test_a_damaged_checkpoint_is_not_used(capsys):
    """Wide networks, so that the file is weights: a bit of a zip's headers may do no harm."""
    usual = call(width=200, output=Path("usual.parquet"))
    stop(20, width=200)
    (path,) = Path("kept").iterdir()
    sound = path.read_bytes()
    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 4
    for data in (flipped, sound[:-100]):
        path.write_bytes(data)
        path.with_name(f".{path.stem}-0123456789abcdef.npz").write_bytes(sound)  # half written
        capsys.readouterr()
        assert call(width=200, checkpoints="kept") == usual
        assert " a checkpoint is not used: " in capsys.readouterr().err
        assert not [*Path("kept").iterdir()]

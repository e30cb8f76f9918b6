"""Training as a program: its table, mistakes in one line, and no trace of having been stopped."""

import itertools
import multiprocessing
import os
import re
import signal
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data import datasets
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.data.subsets import seed_stream
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Course, Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.mlp_layers import Layers
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.trainer import Member, Part
from ntk_workflow.checkpoints.trainings import TrainingCheckpoints
from ntk_workflow.trainings import loop, networks
from ntk_workflow.trainings.loop import Interruption
from tests.support.fault_server import wait_until
from tests.support.sources import write_prepared
from tests.trainings import finish, to_words, train_and_exit

SCRIPT = Path(train_network.__file__)
LABELS = (3, 7, 40)
SEEDS, RATES = (1, 5), (0.1, 0.3)
IMAGE = (4, 3, 2)
RESNET = {"model": "resnet_batch_norm", "depth": 8, "width": 2, "image": IMAGE}
RESNET |= {"test": None, "test_share": 0.3, "momentum": 0.9, "epochs": 2}
EXAMPLE = Path(__file__).parents[2] / "docs/examples/own_network.py"
OWN = RESNET | {"model": "mine", "model_file": EXAMPLE, "depth": 2, "width": 4}
write_samples = partial(write_prepared, n=30, labels=LABELS)


@pytest.fixture(autouse=True)
def saving(monkeypatch):
    """Saving states may take half of the time, so that there are many."""
    monkeypatch.setattr(loop, "SHARE", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_samples(tmp_path / "train.npz")
    write_samples(tmp_path / "images.npz", d=24)
    write_samples(tmp_path / "test.npz", n=11, seed=1, labels=LABELS[1:])
    return tmp_path


def arguments(folder: Path, **options: Any) -> list[str]:
    data = "images.npz" if "image" in options else "train.npz"
    given = {"data": folder / data, "test": folder / "test.npz"}
    given |= {"experiment": "fig3", "dataset": "tiny", "activation": "relu", "depth": 1, "width": 6}
    given |= {"seeds": SEEDS, "learning_rates": RATES, "batch_size": 8, "epochs": 3}
    given["output"] = folder / "out/depth-1.parquet"
    return to_words(given | options)


def call(folder: Path, **options: Any) -> bytes:
    """Return the output of a call that must succeed."""
    given = arguments(folder, **options)
    assert train_network.main(given) == 0
    return Path(given[given.index("--output") + 1]).read_bytes()


def rows(folder: Path, **options: Any) -> list[dict[str, Any]]:
    call(folder, **options)
    return tables.read(folder / "out/depth-1.parquet", "training").to_pylist()


def named(folder: Path) -> list[Path]:
    """Return the checkpoints, the furthest first; a temporary's name begins with a dot."""
    return sorted((folder / "kept").glob("[!.]*.npz"), reverse=True)


@pytest.fixture
def lines(capsys):
    """Return a function that returns what was logged since the last time, without the clock."""

    def read() -> list[str]:
        out, err = capsys.readouterr()
        assert out == ""
        return [line.split(" ", 1)[1] for line in err.splitlines()]

    return read


def test_there_is_a_row_for_every_network_and_evaluated_epoch(folder):
    table = rows(folder, evaluate_every=2)
    expected = [(s, r, e) for s in SEEDS for r in RATES for e in (0, 2, 3)]
    assert [(row["seed"], row["learning_rate"], row["epoch"]) for row in table] == expected
    common = {"experiment": "fig3", "dataset": "tiny", "model": "mlp", "activation": "relu"}
    common |= {"depth": 1, "width": 6, "input_scale": "none", "loss": "cross_entropy", "classes": 3}
    common |= {"outputs": "classes", "batch_size": 8, "n": 30, "n_test": 11, "dtype": "float32"}
    for row in table:
        assert row.items() >= (common | {"d": 4, "steps": 4 * row["epoch"]}).items()
        assert not row["diverged"]
        assert all(np.isfinite(row[name]) for name in Ensemble.METRICS[:-1])
        assert (row["gradient_norm"] is None) == (row["epoch"] == 0)
    whole = rows(folder, batch_size="all", test=None)
    assert [row["steps"] for row in whole[:4]] == [0, 1, 2, 3]
    alike = {(row["batch_size"], row["n_test"], row["test_loss"]) for row in whole}
    assert alike == {(30, 0, None)}


def part(data: PreparedSamples) -> Part:
    """Return samples with classes from 0; of images, torch wants the colours before the rows."""
    x = data.x
    if x.shape[1] > 4:
        x = np.transpose(x.reshape(-1, *IMAGE), (0, 3, 1, 2)).copy()
    return Part(torch.from_numpy(x), torch.tensor([LABELS.index(y) for y in data.y]))


def assert_curves(table, ensemble) -> None:
    for name, values in finish(ensemble).metrics.items():
        column = np.array([np.nan if row[name] is None else row[name] for row in table])
        np.testing.assert_array_equal(column.reshape(values.shape[::-1]), values.T)


def test_the_curves_are_those_of_an_ensemble(folder):
    """Classes are numbered by their labels in training, though a test set may lack some, and a test
    set is scaled like its training set.
    """
    write_samples(folder / "train.npz", scaling="standardize")
    write_samples(folder / "test.npz", n=11, seed=1, labels=LABELS[1:], scaling="standardize")
    train = load_prepared(folder / "train.npz")
    test = load_prepared(folder / "test.npz", like=folder / "train.npz")
    parts = [Part(part(data).x * np.sqrt(2 / 4), part(data).y) for data in (train, test)]
    ensemble = Ensemble(
        Architecture(1, 6, activations.get("tanh")),
        make_loss("square", outputs="scalar", classes=3, dtype=torch.float64),
        [Member(seed, rate) for seed in SEEDS for rate in RATES],
        *(dict.fromkeys(SEEDS, samples) for samples in parts),
        course=Course(epochs=3, batch_size=8),
    )
    options = {"loss": "square", "outputs": "scalar", "dtype": "float64", "activation": "tanh"}
    table = rows(folder, **options, input_scale="fan_in")
    assert_curves(table, ensemble)
    assert {row["input_scale"] for row in table} == {"fan_in"}


def test_the_curves_of_modules_are_those_of_their_ensemble(folder):
    """Every seed holds out samples of its own, by a stream that draws nothing else."""
    descent = {"augmentation": "crop_flip", "weight_decay": 0.01, "decay_at": 1}
    table = rows(folder, **RESNET | descent, dtype="float64")
    data = load_prepared(folder / "images.npz")
    held = {seed: np.zeros(30, dtype=bool) for seed in SEEDS}
    for seed, chosen in held.items():
        chosen[generator(seed, "data").spawn(2)[1].permutation(30)[:9]] = True
    assert not np.array_equal(held[1], held[5])
    size = {"d": 24, "image": IMAGE, "depth": 8, "width": 2, "outputs": 3}
    kind = {"activation": activations.get("relu"), "dtype": torch.float64}
    ensemble = ModuleEnsemble(
        partial(make_network, "resnet_batch_norm", **size, **kind),
        make_loss("cross_entropy", outputs="classes", classes=3, dtype=torch.float64),
        [Member(seed, rate) for seed in SEEDS for rate in RATES],
        {seed: part(data.rows(~chosen)) for seed, chosen in held.items()},
        {seed: part(data.rows(chosen)) for seed, chosen in held.items()},
        descent=Descent(**descent | {"decay_at": (1,)}, epochs=2, batch_size=8, momentum=0.9),
    )
    assert_curves(table, ensemble)
    recorded = {"model": "resnet_batch_norm", "image": "4 3 2", "n": 21, "n_test": 9}
    recorded |= {"momentum": 0.9, "decay_at": "1", "decay_factor": 0.1, "mixed_precision": False}
    assert all(row.items() >= (recorded | {"augmentation": "crop_flip"}).items() for row in table)


def test_an_own_network_is_trained_as_a_built_in_one(folder):
    """Nothing is known of its representations; the rest is an ensemble's of the same modules."""
    table = rows(folder, **OWN)
    ensembles = {(row["model"], row["image"], row["width"]) for row in table}
    assert ensembles == {("mine", "4 3 2", 4)}
    assert len(table) == 2 * 2 * 3
    for row in table:
        assert row["test_dot_product"] is None
        assert all(np.isfinite(row[name]) for name in ("train_loss", "test_accuracy"))
    first, last = ([row["train_loss"] for row in table if row["epoch"] == e] for e in (0, 2))
    assert np.mean(last) < np.mean(first)
    assert first[0] == first[1] != first[2]  # of rates, and of seeds


@pytest.mark.parametrize("network", [{}, RESNET, OWN], ids=["mlp", "modules", "own"])
def test_two_calls_write_the_same_bytes(folder, network):
    usual = call(folder, **network)
    assert call(folder, **network, threads=2, checkpoints=folder / "kept") == usual
    assert call(folder, **network, learning_rates=RATES[::-1]) == usual
    assert call(folder, **network | {"width": 8}) != usual


@pytest.mark.parametrize("network", [{}, RESNET], ids=["mlp", "modules"])
def test_kernels_along_training_are_a_table_beside_the_same_curves(folder, network):
    along = {"kernels_along": (12, 3), "kernels_output": folder / "along.parquet"}
    usual = call(folder, **network)
    assert call(folder, **network, **along) == usual
    first = along["kernels_output"].read_bytes()
    table = tables.read(along["kernels_output"], "kernels_along_training").to_pylist()
    last = network.get("epochs", 3)
    measured = [(s, r, e) for s in SEEDS for r in RATES for e in (0, 1, last)]
    assert [(row["seed"], row["learning_rate"], row["epoch"]) for row in table] == measured
    for row in table:
        assert (row["n"], row["n_train"]) == (12, 21 if network else 30)
        assert row["steps"] == row["epoch"] * (3 if network else 4)
        assert (row["kernel_change"] == 0) == (row["epoch"] == 0)
        assert all(row[name] > 0 for name in ("lambda_max", "alignment", "sharpness"))
    assert call(folder, **network, **along, threads=2, checkpoints=folder / "kept") == usual
    assert along["kernels_output"].read_bytes() == first


def test_every_seed_draws_its_own_samples(folder):
    """Those of `prepare_dataset`; classes are counted in the whole dataset."""
    drawn = rows(folder, samples=12, test=None)
    whole = load_prepared(folder / "train.npz")
    singly, path = [], folder / "part.npz"
    for seed in SEEDS:
        chosen = datasets.drawn_rows(whole, 12, generator=seed_stream(seed))
        save_prepared(path, whole.rows(chosen))
        singly += rows(folder, data=path, seeds=seed, test=None)
    assert drawn == singly
    assert {row["n"] for row in drawn} == {12}
    assert {row["classes"] for row in rows(folder, samples=2, test=None)} == {3}


DIVERGENT = {"loss": "square", "activation": "leaky_relu-0.2", "epochs": 6}


def test_a_rate_that_diverges_is_flagged_and_changes_no_other_row(folder, lines):
    usual = rows(folder, **DIVERGENT, learning_rates=0.1)
    table = rows(folder, **DIVERGENT, learning_rates=(1e6, 0.1))
    assert [row for row in table if row["learning_rate"] == 0.1] == usual
    logged = lines()
    for seed in SEEDS:
        wild = [row for row in table if (row["seed"], row["learning_rate"]) == (seed, 1e6)]
        first = next(row["epoch"] for row in wild if row["diverged"])
        assert 0 < first < 6
        assert [row["diverged"] for row in wild] == [epoch >= first for epoch in range(7)]
        for row in wild:
            assert not row["diverged"] or {row[name] for name in Ensemble.METRICS} == {None}
        assert f"seed {seed}, rate 1e+06: diverged by epoch {first}" in logged


OTHER_SAMPLES = {"bare": {"labels": ()}, "another_label": {"labels": (3, 8, 40)}}
OTHER_SAMPLES |= {"five": {"d": 5}, "one_class": {"labels": (7,)}}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"outputs": "scalar"}, "cross_entropy needs an output for each class"),
        ({"learning_rates": None}, "the following arguments are required: --learning-rates"),
        ({"samples": 31}, "tiny: 31 samples asked for; it must be 2 to 30, or all"),
        ({"activation": "rellu"}, "did you mean 'relu'?"),
        ({"data": "bare.npz"}, "bare.npz has no labels, and training needs them"),
        ({"test": "absent.npz"}, "absent.npz does not exist"),
        ({"test": "bare.npz"}, "bare.npz has no labels; leave the test set out"),
        ({"test": "another_label.npz"}, "another_label.npz has label 8, which no sample of"),
        ({"test": "five.npz"}, "5 features"),
        ({"data": "one_class.npz", "test": None}, "the data have 1 class; a classifier needs 2 or"),
        ({"epoch": 3}, "unrecognized arguments: --epoch"),
        (RESNET | {"depth": 1}, "--depth 1: resnet_batch_norm has two layers or more"),
        (RESNET | {"model": "vit"}, "--width 2: vit has 4 heads, which share its width evenly"),
        (OWN | {"model_file": None}, "--model mine: give its --model-file; built in are mlp, "),
        (OWN | {"model": "conv"}, "--model conv: built in; give --model-file another name"),
        (OWN | {"model_function": "bild"}, "own_network.py: bild() is not there; write def bild"),
        (OWN | {"image": None}, "build() gives a network that fails on 2 samples of shape (24,)"),
        (RESNET | {"image": None}, "images are needed; give --image HEIGHT WIDTH COLOURS"),
        (RESNET | {"image": (4, 4, 2)}, "--image: 4 x 4 x 2 is not the 24 features of a sample"),
        (RESNET | {"batch_size": 20}, "--batch-size 20: an epoch of 21 samples ends with a step"),
        (RESNET | {"test_share": 0.99}, "--test-share 0.99 of 30 samples is 30; leave at least 2"),
        ({"test_share": 1}, "argument --test-share: 1 is not a number from 0 to below 1"),
        ({"test_share": 0.3}, "--test and --test-share exclude each other; give one"),
        ({"kernels_along": (12, 3)}, "give both or none of --kernels-along and --kernels-output"),
    ],
)
def test_a_mistake_is_one_line(folder, refusal, monkeypatch, options, problem):
    monkeypatch.chdir(folder)
    for name, samples in OTHER_SAMPLES.items():
        write_samples(folder / f"{name}.npz", **samples)
    assert problem in refusal(train_network, arguments(folder, checkpoints="kept", **options))


@contextmanager
def stopped_after(steps: int, number: int = signal.SIGTERM):
    """Have a signal noted in the midst of the step that follows so many, of any network."""
    descend, count = Layers.descend, itertools.count()

    def counted(*given, **options):
        if next(count) == steps:
            signal.getsignal(number)(number, None)  # as Python does when a signal has come
        return descend(*given, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Layers, "descend", counted)
        yield


def stop(folder: Path, steps: int, number: int = signal.SIGTERM, **options: Any) -> None:
    """Have a call stopped after so many steps, which leaves a checkpoint and no output."""
    given = {"checkpoints": folder / "kept"} | options
    with stopped_after(steps, number):
        assert train_network.main(arguments(folder, **given)) == 128 + number
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("steps", "number", "epoch", "more", "options"),
    [
        (4 * 4 - 1, signal.SIGINT, 2, 0, {}),  # of four networks, 30 samples by 8
        (2 * 4 * 4 + 3, signal.SIGTERM, 3, 4, {}),
        (2 * 4 * 4 + 3, signal.SIGTERM, 3, 4, {"checkpoint_minutes": 1e-9}),
    ],
)
def test_a_stopped_call_leaves_a_checkpoint_at_once_and_the_next_goes_on(
    folder, lines, steps, number, epoch, more, options
):
    """A step that has begun is finished."""
    usual = call(folder, **options, output=folder / "usual.parquet")
    lines()
    handlers = [*map(signal.getsignal, loop.SIGNALS)]
    stop(folder, steps, number, **options)
    assert lines()[-1] == f"stopped by a signal in epoch {epoch}; call again to go on"
    with np.load(named(folder)[0]) as state:
        assert (state["epoch"], state["steps"].sum()) == (epoch, more)
    assert call(folder, **options, checkpoints=folder / "kept") == usual
    assert f"going on from a checkpoint in epoch {epoch}" in lines()
    assert not (folder / "kept").exists()
    assert [*map(signal.getsignal, loop.SIGNALS)] == handlers


def test_without_a_folder_for_checkpoints_nothing_is_kept(folder, lines, monkeypatch):
    monkeypatch.chdir(folder)
    before = {*folder.rglob("*")}
    with stopped_after(20):
        assert train_network.main(arguments(folder)) == 143
    assert lines()[-1] == "stopped by a signal in epoch 2; nothing is kept"
    call(folder, checkpoint_minutes=1e-9)
    assert {*folder.rglob("*")} - before == {folder / "out", folder / "out/depth-1.parquet"}


def test_large_networks_take_turns_or_a_job_each_with_the_same_result(folder, monkeypatch, capsys):
    usual = rows(folder, **RESNET)
    assert [row for seed in SEEDS for row in rows(folder, **RESNET, seeds=seed)] == usual
    monkeypatch.setattr(networks, "seeds_in_turn", lambda _: 1)
    assert rows(folder, **RESNET) == usual
    kept = {"checkpoints": folder / "kept"}
    trained = []

    def stop_in_the_second(ensemble, *given, **options):
        trained.append(ensemble.members[0].seed)
        return 15 if trained[-1] == 5 else loop.train(ensemble, *given, **options)

    monkeypatch.setattr(train_network, "train", stop_in_the_second)
    assert train_network.main(arguments(folder, **RESNET | kept)) == 143
    monkeypatch.setattr(train_network, "train", loop.train)
    capsys.readouterr()
    assert rows(folder, **RESNET | kept) == usual
    assert trained == [1, 5]
    logged = capsys.readouterr().err
    assert "going on from a checkpoint in epoch 3" in logged  # the first seed's, which was done
    assert "afresh" not in logged
    assert not [*(folder / "kept").rglob("*.npz")]


def test_checkpoints_are_made_by_time_and_two_are_kept(folder, monkeypatch):
    (folder / "kept/depth-2").mkdir(parents=True)  # of others
    counts, save = [], TrainingCheckpoints.save

    def counted(self, ensemble):
        saved = save(self, ensemble)
        counts.append(len(named(folder)))
        return saved

    monkeypatch.setattr(TrainingCheckpoints, "save", counted)
    options = {"checkpoints": folder / "kept", "epochs": 30}
    usual = call(folder, **options)
    assert counts == []  # five minutes are not over
    assert call(folder, **options, checkpoint_minutes=1e-9) == usual
    assert counts[:3] == [1, 2, 2]
    assert max(counts) == 2
    assert [*folder.glob("kept/*")] == [folder / "kept/depth-2"]


def test_of_epochs_9_and_10_the_later_counts(tmp_path):
    class Ensemble:
        epoch = 9

        def state(self):
            return {"epoch": np.array(self.epoch), "steps": np.array([4])}

        def restore(self, state):
            self.epoch = int(state["epoch"])

    ensemble, checkpoints = Ensemble(), TrainingCheckpoints(tmp_path, {}, minutes=5)
    for ensemble.epoch in (9, 10, 11):
        assert checkpoints.save(ensemble)
    assert len([*tmp_path.iterdir()]) == 2
    ensemble.epoch = 0
    assert checkpoints.restore(ensemble)
    assert ensemble.epoch == 11


def test_convolutions_of_a_gpu_are_cudnns_and_sum_in_a_fixed_order(folder, monkeypatch):
    found, finish = [], ModuleEnsemble.advance

    def advance(*given):
        cudnn = torch.backends.cudnn
        found.append((cudnn.enabled, cudnn.deterministic, cudnn.allow_tf32))
        return finish(*given)

    monkeypatch.setattr(ModuleEnsemble, "advance", advance)
    call(folder, **RESNET)
    assert {*found} == {(True, True, False)}


def test_saving_takes_a_hundredth_of_the_time_at_most(monkeypatch):
    seconds = 0.0
    monkeypatch.setattr(loop, "SHARE", 100)
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    interruption = Interruption(every=10)
    for cost, pause in ((0.01, 10), (0.1, 10), (3, 300), (0.01, 10)):
        interruption.saved(cost)
        due = seconds + pause
        for seconds in (due - 0.01, due):
            assert interruption.wanted() == (seconds == due)


#: A value, other than that of `BASE`, of each thing that a training depends on.
BASE = {"model": "fc_layer_norm", "image": IMAGE, "critical_seeds": SEEDS, "test": None}
BASE |= {"mixed_precision": None, "rate_unit": "smallest_critical", "epochs": 2}
OTHERS: dict[str, dict[str, Any]] = {
    "experiment": {"experiment": "fig4"},
    "dataset": {"dataset": "small"},
    "model": {"model": "fc"},
    "activation": {"activation": "tanh"},
    "depth": {"depth": 2},
    "width": {"width": 7},
    "seeds": {"seeds": (5, 1)},
    "samples": {"samples": 20},
    "test_share": {"test_share": 0.2},
    "input_scale": {"input_scale": "fan_in"},
    "image": {"image": (3, 4, 2)},
    "loss": {"loss": "square"},
    "outputs": {"loss": "square", "outputs": "scalar"},
    "batch_size": {"batch_size": 10},
    "epochs": {"epochs": 3},
    "evaluate_every": {"evaluate_every": 2},
    "learning_rates": {"learning_rates": (0.1, 0.2)},
    "rate_unit": {"rate_unit": "critical"},
    "critical_seeds": {"critical_seeds": (1, 5, 7)},
    "dtype": {"dtype": "float64"},
    "tf32": {"tf32": ""},
    "momentum": {"momentum": 0.5},
    "weight_decay": {"weight_decay": 0.1},
    "decay_at": {"decay_at": 1},
    "decay_factor": {"decay_factor": 0.5},
    "augmentation": {"augmentation": "crop_flip"},
    "mixed_precision": {"mixed_precision": ""},
    "kernels_along": {"kernels_along": (6, 2), "kernels_output": "along.parquet"},
    "model_function": {"model_function": "make"},
    "data": {"data": "other.npz"},
    "test": {"test": "images.npz"},
    "code": {"code": "edited"},
}


def test_a_checkpoint_depends_on_every_setting_on_the_data_and_the_code(folder, monkeypatch):
    """The rates follow from the data; device and versions are those of a machine."""
    monkeypatch.chdir(folder)
    write_samples(Path("other.npz"), d=24, seed=7)
    found: list[dict[str, Any]] = []

    class Noted(TrainingCheckpoints):
        def __init__(self, place, depends_on, **when):
            super().__init__(place, depends_on, **when)
            found.append({"digest": self._digest} | depends_on)

    monkeypatch.setattr(train_network, "TrainingCheckpoints", Noted)
    monkeypatch.setattr(train_network, "train", lambda *_, **options: 2)

    def entries(**options: Any) -> dict[str, Any]:
        given = BASE | options
        assert train_network.main(arguments(folder, **given, checkpoints="kept")) == 130
        return found[-1]

    base = entries()
    for name, options in OTHERS.items():
        changed = entries(**options)
        assert changed[name] != base[name], name
        assert changed["digest"] != base["digest"], name
    assert base.keys() - OTHERS.keys() == {"digest", "rates", "device", "versions"}
    digests = {TrainingCheckpoints(folder, {k: 1}, minutes=1)._digest for k in ("rates", "device")}
    assert len(digests) == 2


@pytest.mark.parametrize("options", [{"width": 7}, {"data": "other.npz"}, {"code": "edited"}])
def test_a_checkpoint_of_something_else_is_not_used(folder, lines, monkeypatch, options):
    monkeypatch.chdir(folder)
    write_samples(Path("other.npz"), seed=7)
    usual = call(folder, **options, output=folder / "usual.parquet")
    stop(folder, 20)
    lines()
    assert call(folder, **options, checkpoints=folder / "kept") == usual
    afresh = "no checkpoint of these settings, data and code: training starts afresh"
    assert afresh in lines()
    assert not (folder / "kept").exists()


def test_what_cannot_change_the_result_lets_a_training_go_on(folder, lines, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)  # auto is then the CPU
    usual = call(folder, output=folder / "usual.parquet")
    stop(folder, 20)
    lines()
    moved = {"data": (folder / "train.npz").rename(folder / "train-moved.npz")}
    moved |= {"test": (folder / "test.npz").rename(folder / "test-moved.npz")}
    when = {"checkpoint_minutes": 3, "checkpoints": folder / "kept"}
    elsewhere = {"threads": 2, "device": "auto", "output": folder / "elsewhere.parquet"}
    assert call(folder, **moved, **when, **elsewhere) == usual
    assert "going on from a checkpoint in epoch 2" in lines()


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(folder, lines):
    """Wide networks, so that the file is weights: a bit of a zip's headers may do no harm.

    The last has only its temporary name: its job was killed before it got another.
    """
    usual = call(folder, width=200, output=folder / "usual.parquet")
    stop(folder, 20, width=200, checkpoint_minutes=1e-9)
    newest, older = named(folder)
    sound, before = newest.read_bytes(), older.read_bytes()
    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 4
    for data, second in ((flipped, before), (sound[:-100], before), (sound[:-100], before[:-100])):
        (folder / "kept").mkdir(exist_ok=True)
        newest.write_bytes(data)
        older.write_bytes(second)
        newest.with_name(f".{newest.stem}-0123456789abcdef.npz").write_bytes(sound)
        (folder / "kept/stray.npz").write_bytes(b"")
        lines()
        assert call(folder, width=200, checkpoints=folder / "kept") == usual
        logged = lines()
        unusable = sum(line.startswith("a checkpoint is not used: ") for line in logged)
        assert unusable == 1 + (second != before)
        went_on = any(line.startswith("going on from a checkpoint") for line in logged)
        assert went_on == (second == before)
        assert not (folder / "kept").exists()


@pytest.fixture(scope="module")
def start():
    """Return a function that starts a call as a process, forked from one that is ready."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.trainings", "train_network", "pyarrow.parquet"])
    with pytest.MonkeyPatch.context() as patched:  # the server reads it when it begins
        paths = [str(SCRIPT.parents[1] / name) for name in ("", "src", "scripts")]
        patched.setenv("PYTHONPATH", os.pathsep.join(paths))

        def started(argv, log):
            process = context.Process(target=train_and_exit, args=(argv, log))
            process.start()
            return process

        yield started


#: With momentum, running statistics and augmentation.
MODULES = {"model": "fc_batch_norm", "depth": 2, "width": 4, "image": IMAGE, "test": None}
MODULES |= {"augmentation": "crop_flip", "momentum": 0.9, "decay_at": (4, 20)}


MEASURED = {"width": 32, "momentum": 0.9, "kernels_along": (12, 30)}


@pytest.mark.parametrize(
    "network",
    [{"width": 32, "momentum": 0.9}, MODULES, MEASURED],
    ids=["mlp", "modules", "measured"],
)
def test_killed_at_any_moment_it_ends_in_the_same_bytes(folder, start, network):
    options = {"epochs": 30, "checkpoint_minutes": 1e-9} | network
    along = folder / "along.parquet"
    if "kernels_along" in network:
        options["kernels_output"] = along
    output, log = folder / "out/depth-1.parquet", folder / "log"
    usual = call(folder, **options, output=folder / "usual.parquet")
    usual_along = along.read_bytes() if along.exists() else b""
    kept = folder / "kept"
    argv = arguments(folder, **options, checkpoints=kept)
    # One more checkpoint is there, the process has just started, one is being written.
    looks = [partial(named, folder), itertools.count().__next__, lambda: {*kept.glob(".*")}]
    killed = 0
    for look in itertools.islice(itertools.cycle(looks), 30):
        before = look()
        process = start(argv, log)
        wait_until(lambda: look() != before or output.exists())  # noqa: B023
        process.kill()
        process.join()
        if output.exists():  # it was faster
            assert output.read_bytes() == usual
            output.unlink()
        else:
            assert process.exitcode == -signal.SIGKILL
            killed += 1
        assert len(named(folder)) <= 3  # two, and one that is newer
        if killed >= 3 and named(folder):  # so that there is something to go on from
            break
    last = start(argv, log)
    last.join()
    assert (killed >= 3, last.exitcode) == (True, 0)
    assert output.read_bytes() == usual
    assert not usual_along or along.read_bytes() == usual_along
    assert "going on from a checkpoint in epoch" in log.read_text()
    assert not kept.exists()
    assert [path for path in output.parent.iterdir() if path.name[0] != "."] == [output]


def test_a_process_tells_a_scheduler_that_it_was_stopped(folder, start):
    options = {"epochs": 10**6, "checkpoint_minutes": 1e-4, "checkpoints": folder / "kept"}
    process = start(arguments(folder, **options), folder / "log")
    wait_until(lambda: len(named(folder)) > 0)
    process.terminate()
    process.join()
    assert process.exitcode == 143
    logged = (folder / "log").read_text()
    assert logged.splitlines()[-1].endswith("; call again to go on")
    assert "Traceback" not in logged


def test_too_large_networks_are_one_line(folder, refusal):
    line = refusal(train_network, arguments(folder, depth=2, width=3_000_000))
    assert re.search(r"out of memory \(.+\); lower kernel_size, samples or width$", line)

"""Training as a program: its table, its mistakes in one line, and no trace of having been stopped.

Whole processes are forked from one that has loaded everything, so that dozens can be killed within
seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from ntk_conditioning.networks.mlp import activations
from ntk_conditioning.tables.training import TRAINING, TRAINING_KERNELS
from ntk_conditioning.training import METRICS, Architecture, Ensemble, Member, Part, make_loss
from ntk_conditioning.training import layers as training_layers
from ntk_workflow.checkpoints import trainings
from ntk_workflow.checkpoints.interruption import SHARE, Interruption
from ntk_workflow.trainings import loop
from tests.fault_server import wait_until

SCRIPT = Path(train_network.__file__)
LABELS = (3, 7, 40)
SEEDS, RATES = (1, 5), (0.1, 0.3)
STEPS = 4 * 4  # of the four networks in an epoch, 30 samples by 8


def write_samples(
    path: Path,
    *,
    n: int = 30,
    d: int = 4,
    labels: Sequence[int] | None = LABELS,
    seed: int = 0,
    scaling: Any = "none",
) -> Path:
    chance = np.random.default_rng(seed)
    x, y = chance.standard_normal((n, d)), None
    if labels is not None:
        y = np.array(labels)[chance.permutation(n) % len(labels)]
    save_prepared(path, PreparedSamples("tiny", x, y, scaling))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_samples(tmp_path / "train.npz")
    write_samples(tmp_path / "test.npz", n=11, seed=1, labels=LABELS[1:])
    return tmp_path


def arguments(folder: Path, *flags: str, **options: Any) -> list[str]:
    """Return the arguments of a call in a folder; an option of None is left out."""
    given: dict[str, Any] = {
        "data": folder / "train.npz",
        "test": folder / "test.npz",
        "experiment": "fig3",
        "dataset": "tiny",
        "activation": "relu",
        "depth": 1,
        "width": 6,
        "seeds": SEEDS,
        "learning_rates": RATES,
        "batch_size": 8,
        "epochs": 3,
        "output": folder / "out/depth-1.parquet",
    }
    text = []
    for name, value in (given | options).items():
        if value is not None:
            values = value if isinstance(value, tuple) else (value,)
            text += [f"--{name.replace('_', '-')}", *map(str, values)]
    return [*text, *flags]


def call(folder: Path, *flags: str, **options: Any) -> bytes:
    """Return the output of a call that must succeed."""
    given = arguments(folder, *flags, **options)
    assert train_network.main(given) == 0
    return Path(given[given.index("--output") + 1]).read_bytes()


def rows(folder: Path, *flags: str, **options: Any) -> list[dict[str, Any]]:
    call(folder, *flags, **options)
    return tables.read(folder / "out/depth-1.parquet", TRAINING).to_pylist()


def named(folder: Path) -> list[Path]:
    """Return the checkpoints, the furthest first; a temporary's name begins with a dot."""
    return sorted((folder / "kept").glob("[!.]*.npz"), reverse=True)


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """Return what was logged since the last time, without the clock."""

    def read() -> list[str]:
        captured = capsys.readouterr()
        assert captured.out == ""
        return [line.split(" ", 1)[1] for line in captured.err.splitlines()]

    return read


# --- the table ------------------------------------------------------------------------------------


def test_there_is_a_row_for_every_network_and_evaluated_epoch(folder):
    found = rows(folder, evaluate_every=2)
    expected = [(s, r, e) for s in SEEDS for r in RATES for e in (0, 2, 3)]
    assert [(row["seed"], row["learning_rate"], row["epoch"]) for row in found] == expected
    for row in found:
        common = {
            "experiment": "fig3",
            "dataset": "tiny",
            "model": "mlp",
            "activation": "relu",
            "depth": 1,
            "width": 6,
            "input_scale": "none",
            "loss": "cross_entropy",
            "outputs": "classes",
            "batch_size": 8,
            "n": 30,
            "n_test": 11,
            "d": 4,
            "classes": 3,
            "dtype": "float32",
            "tf32": False,
            "steps": 4 * row["epoch"],
            "diverged": False,
        }
        assert row.items() >= common.items()
        assert all(np.isfinite(row[name]) for name in METRICS[:-1])
        assert (row["gradient_norm"] is None) == (row["epoch"] == 0)


@pytest.mark.parametrize(
    ("loss", "outputs"),
    [("cross_entropy", "classes"), ("square", "classes"), ("square", "scalar")],
)
def test_the_curves_are_those_of_an_ensemble(folder, loss, outputs):
    """Classes are numbered by their labels in training, though a test set may lack some."""

    def part(name: str, n: int, d: int = 4) -> Part:
        data = load_prepared(folder / f"{name}.npz")
        assert data.x.shape == (n, d)
        return Part(torch.from_numpy(data.x), torch.tensor([LABELS.index(y) for y in data.y]))

    ensemble = Ensemble(
        Architecture(1, 6, activations.get("tanh")),
        make_loss(loss, outputs=outputs, classes=3, dtype=torch.float64),
        [Member(seed, rate) for seed in SEEDS for rate in RATES],
        dict.fromkeys(SEEDS, part("train", 30)),
        dict.fromkeys(SEEDS, part("test", 11)),
        epochs=3,
        batch=8,
    )
    while not ensemble.finished:
        ensemble.advance()
    options = {"loss": loss, "outputs": outputs, "dtype": "float64", "activation": "tanh"}
    found = rows(folder, **options)
    for name in METRICS:
        column = np.array([np.nan if row[name] is None else row[name] for row in found])
        np.testing.assert_array_equal(column.reshape(4, 4), ensemble.metrics[name].T)


def test_two_calls_write_the_same_bytes(folder):
    usual = call(folder)
    assert call(folder) == usual
    assert call(folder, threads=2) == usual
    assert call(folder, checkpoints=folder / "kept", checkpoint_epochs=1) == usual
    assert call(folder, learning_rates=RATES[::-1]) == usual
    assert call(folder, width=7) != usual


def test_labels_may_be_any_numbers(folder):
    usual = call(folder)
    for name, n, seed, labels in (("train", 30, 0, (0, 1, 2)), ("test", 11, 1, (1, 2))):
        write_samples(folder / f"{name}.npz", n=n, seed=seed, labels=labels)
    assert call(folder) == usual
    write_samples(folder / "train.npz", labels=(-5, 0, 1000))
    assert call(folder, test=None) != usual


@pytest.mark.parametrize("batch_size", [30, 31, 500, "all"])
def test_a_batch_that_holds_all_samples_is_one_step(folder, batch_size):
    found = rows(folder, batch_size=batch_size)
    assert {row["batch_size"] for row in found} == {30}
    assert [row["steps"] for row in found[:4]] == [0, 1, 2, 3]


def test_without_a_test_set_its_columns_are_missing(folder):
    found = rows(folder, test=None)
    assert {(row["n_test"], row["test_loss"], row["test_accuracy"]) for row in found} == {
        (0, None, None)
    }


def test_the_input_scale_is_a_factor_of_the_samples(folder):
    found = rows(folder, input_scale="fan_in", dtype="float64")
    for name in ("train", "test"):
        data = load_prepared(folder / f"{name}.npz")
        scaled = PreparedSamples("tiny", data.x * np.sqrt(2 / 4), data.y, "none")
        save_prepared(folder / f"{name}.npz", scaled)
    assert found == [row | {"input_scale": "fan_in"} for row in rows(folder, dtype="float64")]
    assert found != rows(folder, input_scale="fan_in", dtype="float64")


def test_a_test_set_is_scaled_like_its_training_set(folder):
    write_samples(folder / "train.npz", scaling="standardize")
    write_samples(folder / "test.npz", n=11, seed=1, scaling="standardize")
    found = rows(folder)
    alike = load_prepared(folder / "test.npz", like=folder / "train.npz")
    train = load_prepared(folder / "train.npz")
    save_prepared(folder / "train.npz", PreparedSamples("tiny", train.x, train.y, "none"))
    save_prepared(folder / "test.npz", PreparedSamples("tiny", alike.x, alike.y, "none"))
    assert rows(folder) == found


def test_every_seed_draws_its_own_samples(folder):
    """Those of `prepare_dataset`; classes are counted in the whole dataset."""
    drawn = rows(folder, samples=12, test=None)
    whole = load_prepared(folder / "train.npz")
    dataset = PreparedSamples("tiny", whole.x, whole.y, "none")
    singly = []
    for seed in SEEDS:
        part = datasets.subset(dataset, 12, generator=seed_stream(seed))
        assert set(part.y) == set(LABELS)
        save_prepared(folder / "part.npz", part)
        singly += rows(folder, data=folder / "part.npz", seeds=seed, test=None)
    assert drawn == singly
    assert {row["n"] for row in drawn} == {12}
    assert {row["classes"] for row in rows(folder, samples=2, test=None)} == {3}


def test_relative_rates_are_in_units_of_the_smallest_critical_one(folder):
    kernel = [
        {
            "experiment": "fig3",
            "dataset": "tiny",
            "model": "mlp",
            "activation": "relu",
            "depth": 1,
            "seed": seed,
            "width": 6,
            "n": 30,
            "n_train": 30,
            "lambda_max": 60 / critical,
            "lambda_min": None,
            "kappa": None,
            "critical_learning_rate": critical,
        }
        for seed, critical in ((1, 0.45678), (5, 0.12345))
    ]
    path = folder / "kernel.parquet"
    tables.write(path, TRAINING_KERNELS, tables.from_rows(TRAINING_KERNELS, kernel))
    relative = {"learning_rates": None, "relative_rates": (1, 0.5), "kernel": path}
    found = rows(folder, **relative)
    assert sorted({row["learning_rate"] for row in found}) == [0.0617, 0.123]
    assert found == rows(folder, learning_rates=(0.0617, 0.123))


PLUGIN = """
from ntk_conditioning.activations import Activation, register

register(Activation("NAME", function=lambda z: z.tanh() / 2, derivative=DERIVATIVE
))
"""


def write_plugin(folder: Path, name: str, derivative: str = "lambda z: (1 - z.tanh()**2) / 2"):
    path = folder / f"{name}.py"
    path.write_text(PLUGIN.replace("NAME", name).replace("DERIVATIVE", derivative))
    return path


def test_activations_may_come_from_a_file(folder):
    plugin = write_plugin(folder, "trained_half")
    found = rows(folder, activation="trained_half", activation_file=plugin)
    assert {row["activation"] for row in found} == {"trained_half"}


def test_products_together_are_near_to_separate_ones(folder):
    """A few hundred roundings of float32."""
    separate, together = (rows(folder, products=how) for how in ("separate", "together"))
    for one, other in zip(separate, together, strict=True):
        for name in ("train_loss", "test_loss"):
            assert other[name] == pytest.approx(one[name], abs=0, rel=1e-4)


DIVERGENT = {"loss": "square", "activation": "leaky_relu-0.2", "epochs": 6}


def test_a_rate_that_diverges_is_marked_and_changes_no_other_row(folder, lines):
    usual = rows(folder, **DIVERGENT, learning_rates=0.1)
    found = rows(folder, **DIVERGENT, learning_rates=(1e6, 0.1))
    assert [row for row in found if row["learning_rate"] == 0.1] == usual
    for seed in SEEDS:
        wild = [row for row in found if (row["seed"], row["learning_rate"]) == (seed, 1e6)]
        first = next(row["epoch"] for row in wild if row["diverged"])
        assert 0 < first < 6
        assert [row["diverged"] for row in wild] == [epoch >= first for epoch in range(7)]
        for row in wild:
            assert row["diverged"] == (row["train_loss"] is None)
            assert not row["diverged"] or {row[name] for name in METRICS} == {None}
        assert f"seed {seed}, rate 1e+06: diverged by epoch {first}" in lines() or seed != 1


def test_if_all_diverge_there_is_a_table_all_the_same(folder):
    found = rows(folder, **DIVERGENT, learning_rates=1e6, checkpoints=folder / "kept")
    assert [row["epoch"] for row in found] == [*range(7)] * 2
    assert [row["diverged"] for row in found if row["epoch"] == 6] == [True, True]
    assert found == rows(folder, **DIVERGENT, learning_rates=1e6)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "flags", "problem"),
    [
        ({"samples": 31}, (), "tiny: 31 samples asked for; it must be 2 to 30, or all"),
        ({"learning_rates": (0.1, 0.3, 0.1)}, (), "a learning rate is given twice; give each once"),
        ({"seeds": (1, 5, 1)}, (), "--seeds gives a seed twice; give each once"),
        ({"outputs": "scalar"}, (), "cross_entropy needs an output for each class"),
        ({"device": "cuda"}, (), "--device cuda: torch sees no GPU here ("),
        (
            {"learning_rates": None, "relative_rates": 0.5},
            (),
            "--relative-rates needs the critical rates; give --kernel FILE",
        ),
        ({"learning_rates": None}, (), "one of the arguments --learning-rates --relative-rates"),
        ({"relative_rates": 0.5}, (), "--relative-rates: not allowed with argument --learning"),
        ({"learning_rates": (0.1, 0)}, (), "argument --learning-rates: 0 is not a number above"),
        ({"epochs": 0}, (), "argument --epochs: 0 is not above zero"),
        ({"depth": -1}, (), "argument --depth: -1 is negative"),
        ({"data": "absent.npz"}, (), "absent.npz does not exist"),
        ({"test": "absent.npz"}, (), "absent.npz does not exist"),
        ({"activation": "rellu"}, (), "unknown activation 'rellu'; did you mean 'relu'?"),
        ({"loss": "hinge"}, (), "argument --loss: invalid choice"),
        ({}, ("--epoch",), "unrecognized arguments: --epoch"),
        (
            {"learning_rates": None, "relative_rates": 0.5, "kernel": "absent.parquet"},
            (),
            "absent.parquet: no such table",
        ),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, monkeypatch, options, flags, problem):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    kept = {"checkpoints": folder / "kept"}
    assert problem in refusal(folder, capsys, *flags, **kept | options)


def refusal(folder: Path, capsys: Any, *flags: str, **options: Any) -> str:
    """Return the only line of a call that must fail and write nothing."""
    before = {*folder.rglob("*")}
    capsys.readouterr()
    assert train_network.main(arguments(folder, *flags, **options)) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("train_network: error: ")
    assert captured.out == ""
    assert {*folder.rglob("*")} == before
    return line


def test_a_dataset_without_labels_is_one_line(folder, capsys):
    bare = write_samples(folder / "bare.npz", labels=None)
    line = refusal(folder, capsys, data=bare)
    assert "bare.npz has no labels, and training needs them; name a labelled one" in line
    assert "bare.npz has no labels; leave the test set out" in refusal(folder, capsys, test=bare)


def test_a_label_of_the_test_set_alone_is_one_line(folder, capsys):
    write_samples(folder / "test.npz", n=11, labels=(3, 8, 40))
    line = refusal(folder, capsys)
    assert "test.npz has label 8, which no sample of" in line
    assert line.endswith("train.npz has")


def test_a_single_class_is_one_line(folder, capsys):
    write_samples(folder / "train.npz", labels=(7,))
    line = refusal(folder, capsys, test=None)
    assert "the data have 1 class; a classifier needs 2 or more" in line


@pytest.mark.parametrize("scaling", ["none", "standardize"])
def test_a_test_set_with_other_features_is_one_line(folder, capsys, scaling):
    write_samples(folder / "train.npz", scaling=scaling)
    write_samples(folder / "test.npz", n=11, d=5, scaling=scaling)
    line = refusal(folder, capsys)
    assert "5 features" in line
    assert "4" in line.partition("5 features")[2]


# --- stopped by a signal --------------------------------------------------------------------------


@contextmanager
def stopped_after(steps: int, number: int = signal.SIGTERM) -> Iterator[None]:
    """Have a signal noted in the midst of the step that follows so many, of any network."""
    descend, count, noted = training_layers.descend, 0, threading.Event()

    class Noting(Interruption):
        def _note(self, *given: Any) -> None:
            super()._note(*given)
            noted.set()

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal count
        if count == steps:
            # Again if need be: between its look for signals and its wait for this thread, the main
            # thread is not woken by one.
            while not noted.wait(0.05):
                signal.pthread_kill(threading.main_thread().ident or 0, number)
        count += 1
        return descend(*given, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training_layers, "descend", counted)
        patched.setattr(loop, "Interruption", Noting)
        yield


def stop(folder: Path, steps: int, number: int = signal.SIGTERM, **options: Any) -> None:
    """Have a call stopped after so many steps, which leaves a checkpoint and no output."""
    given = {"checkpoints": folder / "kept"} | options
    with stopped_after(steps, number):
        assert train_network.main(arguments(folder, **given)) == 128 + number
    assert not (folder / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("steps", [1, 5, STEPS - 1, STEPS, 2 * STEPS + 3, 3 * STEPS - 1])
def test_a_stopped_call_leaves_a_checkpoint_at_once_and_the_next_goes_on(
    folder, lines, steps, number
):
    usual = call(folder, output=folder / "usual.parquet")
    lines()
    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    stop(folder, steps, number)
    epochs, more = divmod(steps + 1, STEPS)  # a step that has begun is finished
    epoch = epochs + 1
    assert lines()[-1] == f"stopped by a signal in epoch {epoch}; call again to go on"
    (kept,) = named(folder)
    with np.load(kept) as state:
        assert (state["epoch"], state["steps"].sum()) == (epoch, more)
    assert call(folder, checkpoints=folder / "kept") == usual
    assert f"going on from a checkpoint in epoch {epoch}" in lines()
    assert not (folder / "kept").exists()
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == handlers


def test_a_signal_between_two_epochs_leaves_a_checkpoint_too(folder, monkeypatch):
    """It comes when the main thread has just found that there is no reason to save."""

    class Late(Interruption):
        def wanted(self) -> bool:
            due = super().wanted()
            if threading.current_thread() is threading.main_thread():
                self._note(signal.SIGTERM, None)
            return due

    monkeypatch.setattr(loop, "Interruption", Late)
    assert train_network.main(arguments(folder, checkpoints=folder / "kept")) == 143
    assert len(named(folder)) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("products", ["separate", "together"])
def test_calls_that_are_stopped_again_and_again_come_to_the_same_end(folder, products, threads):
    usual = call(folder, products=products)
    (folder / "out/depth-1.parquet").unlink()
    (folder / "out").rmdir()
    stops = 0
    while True:
        with stopped_after(3):
            code = train_network.main(
                arguments(folder, products=products, threads=threads, checkpoints=folder / "kept")
            )
        if code == 0:
            break
        stops += 1
        assert code == 143
        assert len(named(folder)) <= 2
    assert stops > (8 if products == "separate" else 2)
    assert (folder / "out/depth-1.parquet").read_bytes() == usual


def test_without_a_folder_for_checkpoints_nothing_is_kept(folder, lines, monkeypatch):
    monkeypatch.chdir(folder)
    before = {*folder.rglob("*")}
    with stopped_after(20):
        assert train_network.main(arguments(folder)) == 143
    assert lines()[-1] == "stopped by a signal in epoch 2; nothing is kept"
    assert {*folder.rglob("*")} == before
    call(folder, checkpoint_epochs=1)
    assert {*folder.rglob("*")} - before == {folder / "out", folder / "out/depth-1.parquet"}


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many checkpoints there were after each was written."""
    counts: list[int] = []
    save = trainings.TrainingCheckpoints.save

    def counted(self: Any, ensemble: Any) -> None:
        save(self, ensemble)
        counts.append(len([*self._folder.iterdir()]))

    monkeypatch.setattr(trainings.TrainingCheckpoints, "save", counted)
    return counts


@pytest.mark.parametrize(("every", "count"), [(1, 7), (2, 3), (7, 1), (8, 0)])
def test_checkpoints_are_made_by_epochs_and_two_are_kept(folder, saved, every, count):
    call(folder, epochs=6, checkpoints=folder / "kept", checkpoint_epochs=every)
    assert saved == [1, 2, 2, 2, 2, 2, 2][:count]
    assert not (folder / "kept").exists()


def test_checkpoints_are_made_by_time_in_mid_epoch_too(folder, saved):
    options = {"epochs": 100, "checkpoints": folder / "kept"}
    usual = call(folder, **options)
    assert saved == []  # five minutes are not over
    assert call(folder, **options, checkpoint_minutes=1e-4) == usual
    assert saved


def test_the_newest_checkpoint_is_that_of_the_last_epoch_also_beyond_nine(folder, lines):
    options = {"epochs": 12, "checkpoints": folder / "kept", "checkpoint_epochs": 1}
    stop(folder, 9 * STEPS - 1, **options)
    call(folder, **options)
    assert "going on from a checkpoint in epoch 10" in lines()


def test_a_folder_that_others_use_stays(folder):
    (folder / "kept/depth-2").mkdir(parents=True)
    call(folder, checkpoints=folder / "kept", checkpoint_epochs=1)
    assert [*folder.glob("kept/*")] == [folder / "kept/depth-2"]


OTHERS = [
    ({"epochs": 4}, "options (epochs)"),
    ({"learning_rates": (0.1, 0.2)}, "options (learning_rates)"),
    ({"seeds": (1, 6)}, "options (seeds)"),
    ({"width": 7, "loss": "square"}, "options (loss, width)"),
    ({"products": "together"}, "options (products)"),
    ({"test": None}, "files (test)"),
]


@pytest.mark.parametrize(("options", "difference"), OTHERS, ids=lambda value: str(value))
def test_a_checkpoint_of_other_options_is_refused(folder, lines, options, difference):
    usual = call(folder, **options, output=folder / "usual.parquet")
    stop(folder, 20)
    lines()
    name = named(folder)[0].name
    assert call(folder, **options, checkpoints=folder / "kept") == usual
    told = "checkpoints are not used, training starts afresh: "
    assert f"{told}{name} was made with other {difference}" in lines()
    assert not (folder / "kept").exists()


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_checkpoint_of_other_data_is_refused(folder, lines, name):
    stop(folder, 20)
    write_samples(folder / f"{name}.npz", seed=7)
    usual = call(folder, output=folder / "usual.parquet")
    lines()
    assert call(folder, checkpoints=folder / "kept") == usual
    what = {"train": "data", "test": "test"}[name]
    assert any(line.endswith(f"was made with other files ({what})") for line in lines())


def test_a_checkpoint_of_other_code_or_libraries_is_refused(folder, lines, monkeypatch):
    usual = call(folder, output=folder / "usual.parquet")
    stop(folder, 20)
    lines()
    monkeypatch.setattr(trainings, "source_digest", lambda *_, **__: "0" * 16)
    monkeypatch.setattr(trainings.metadata, "version", lambda _: "0")
    assert call(folder, checkpoints=folder / "kept") == usual
    libraries = ", ".join(trainings.LIBRARIES)
    (line,) = (line for line in lines() if "afresh" in line)
    assert line.endswith(f"was made with other code, other versions ({libraries})")


def test_the_code_of_an_activation_is_code_too(folder, lines):
    options = {"activation": "stopped_half", "checkpoints": folder / "kept"}
    plugin = write_plugin(folder, "stopped_half")
    stop(folder, 20, **options, activation_file=plugin)
    write_plugin(folder, "stopped_half", "lambda z:  (1 - z.tanh() ** 2) / 2  # a remark")
    stop(folder, 5, **options, activation_file=plugin)
    assert "going on from a checkpoint in epoch 2" in lines()
    write_plugin(folder, "stopped_half", "lambda z: 0.5 * (1 - z.tanh()**2)")
    call(folder, **options, activation_file=plugin)
    (line,) = (line for line in lines() if "afresh" in line)
    assert line.endswith("was made with other code")


def test_what_cannot_change_the_result_lets_a_training_go_on(folder, lines, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)  # auto is then the CPU
    usual = call(folder, output=folder / "usual.parquet")
    stop(folder, 20)
    lines()
    for name in ("train", "test"):
        (folder / f"{name}.npz").rename(folder / f"{name}-moved.npz")
    found = call(
        folder,
        data=folder / "train-moved.npz",
        test=folder / "test-moved.npz",
        threads=2,
        device="auto",
        output=folder / "elsewhere.parquet",
        checkpoints=folder / "kept",
        checkpoint_epochs=1,
        checkpoint_minutes=3,
    )
    assert found == usual
    assert "going on from a checkpoint in epoch 2" in lines()


def truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def flip_a_bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(folder, lines, damage):
    """Wide networks, so that the file is weights: a bit of a zip's headers may do no harm."""
    usual = call(folder, width=200, output=folder / "usual.parquet")
    stop(folder, 20, width=200, checkpoint_epochs=1)
    newest, older = named(folder)
    sound, before, harmed = newest.read_bytes(), older.read_bytes(), 0
    for number in range(15):
        (folder / "kept").mkdir(exist_ok=True)
        data = bytearray(sound)
        damage(data, random.Random(number))
        newest.write_bytes(data)
        older.write_bytes(before)
        lines()
        assert call(folder, width=200, checkpoints=folder / "kept") == usual
        told = lines()
        harmed += any(line.startswith("a checkpoint is not used: ") for line in told)
        assert "going on from a checkpoint in epoch 2" in told
    assert harmed > 10


def test_if_no_checkpoint_can_be_read_training_starts_afresh(folder, lines):
    usual = call(folder, output=folder / "usual.parquet")
    stop(folder, 20, checkpoint_epochs=1)
    for path in named(folder):
        path.write_bytes(path.read_bytes()[:-100])
    (folder / "kept/stray.npz").write_bytes(b"")
    lines()
    assert call(folder, checkpoints=folder / "kept") == usual
    told = lines()
    assert sum(line.startswith("a checkpoint is not used: ") for line in told) == 2
    assert not any("going on" in line for line in told)
    assert not (folder / "kept").exists()


def test_what_a_killed_job_was_writing_is_no_checkpoint(folder, lines):
    """It was killed after the first was written and before it got its name."""
    usual = call(folder, output=folder / "usual.parquet")
    stop(folder, 20)
    (kept,) = named(folder)
    kept.rename(kept.with_name(f".{kept.stem}-0123456789abcdef.npz"))
    lines()
    assert call(folder, checkpoints=folder / "kept") == usual
    assert not any("afresh" in line for line in lines())
    assert not (folder / "kept").exists()


# --- another job in the same folder ---------------------------------------------------------------


@pytest.mark.parametrize("moment", ["writing", "written"])
def test_a_job_that_is_done_first_does_not_disturb_another(folder, monkeypatch, moment):
    """The other is about to write a checkpoint, or to give it its name."""
    usual = call(folder, output=folder / "usual.parquet")
    savez, calls = np.savez, 0

    def interrupted(stream: Any, **arrays: Any) -> None:
        nonlocal calls
        calls += 1
        if moment == "written":
            savez(stream, **arrays)
            stream.flush()
        if calls == 2:
            monkeypatch.setattr(np, "savez", savez)
            assert call(folder, checkpoints=folder / "kept") == usual
        if moment == "writing":
            savez(stream, **arrays)

    monkeypatch.setattr(np, "savez", interrupted)
    assert call(folder, checkpoints=folder / "kept", checkpoint_epochs=1) == usual


def test_a_job_that_is_done_leaves_a_folder_that_is_in_use(folder, monkeypatch):
    """A checkpoint of another job appears between the look into the folder and its deletion."""
    rmdir = Path.rmdir

    def interrupted(self: Path) -> None:
        (self / "other.npz").write_bytes(b"")
        rmdir(self)

    monkeypatch.setattr(Path, "rmdir", interrupted)
    call(folder, checkpoints=folder / "kept", checkpoint_epochs=1)
    assert (folder / "kept/other.npz").exists()


# --- whole processes ------------------------------------------------------------------------------

SERVER = """
import json, os, sys, traceback

sys.path[:0] = json.loads(sys.argv[1])
import ntk_conditioning
import pyarrow.compute
import pyarrow.parquet
import train_network
from ntk_conditioning.provenance import source_digest

# What takes longer than these trainings, but once: parsed sources, and libraries that are loaded
# when they are needed.
source_digest(train_network.__file__, package=os.path.dirname(ntk_conditioning.__file__))
pyarrow.Table.from_pylist([{"x": "text"}])
train_network.limit_threads(1)

for line in sys.stdin:
    what, *given = json.loads(line)
    if what == "start":
        argv, log = given
        answer = os.fork()
        if answer == 0:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            code = 1
            try:
                code = train_network.main(argv)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
    else:
        answer = os.waitstatus_to_exitcode(os.waitpid(*given, 0)[1])
    print(answer, flush=True)
"""


class Processes:
    """Calls of the program as processes of their own, forked from one that is ready."""

    def __init__(self) -> None:
        paths = [str(SCRIPT.parent), str(SCRIPT.parents[1] / "src")]
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, argv: Sequence[str], log: Path) -> int:
        """Start a call and return its process's number."""
        return self._ask("start", argv, str(log))

    def code(self, process: int) -> int:
        """Return the exit code of a process when it ends; a signal is a negative one."""
        return self._ask("wait", process)

    def close(self) -> None:
        self._server.communicate(timeout=60)

    def _ask(self, *words: Any) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(words) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


#: With momentum, running statistics and augmentation.
MODULES = {
    "model": "fc_batch_norm",
    "depth": 2,
    "width": 4,
    "image": (2, 2, 1),
    "augmentation": "crop_flip",
    "momentum": 0.9,
    "decay_at": (4, 20),
}


@pytest.mark.parametrize(
    ("kills", "network"),
    [(8, {"width": 32}), pytest.param(30, {"width": 32}, marks=pytest.mark.slow), (5, MODULES)],
    ids=["few", "many", "modules"],
)
def test_killed_at_any_moment_it_ends_in_the_same_bytes(folder, processes, kills, network):
    options = {"epochs": 10 * kills, "checkpoint_epochs": 1} | network
    output = folder / "out/depth-1.parquet"
    usual = call(folder, **options, output=folder / "usual.parquet")
    argv = arguments(folder, **options, checkpoints=folder / "kept")
    logs: list[Path] = []

    def start() -> int:
        logs.append(folder / f"{len(logs)}.log")
        return processes.start(argv, logs[-1])

    chance, killed = random.Random(kills), 0
    while killed < kills or not named(folder):  # so that there is something to go on from
        assert len(logs) < 10 * kills
        before = named(folder)[:1]
        process = start()
        if len(logs) % 4:  # else at any point of the start, too
            wait_until(lambda before=before: named(folder)[:1] != before, within=60)
            time.sleep(chance.uniform(0, 0.02))
        else:
            time.sleep(chance.uniform(0, 0.1))
        os.kill(process, signal.SIGKILL)
        code = processes.code(process)
        killed += code != 0
        if code == 0:  # it was faster
            assert output.read_bytes() == usual
            output.unlink()
        else:
            assert code == -signal.SIGKILL
            assert not output.exists()
        assert len(named(folder)) <= 3  # two, and one that is newer
    assert processes.code(start()) == 0
    assert output.read_bytes() == usual
    resumed = ["going on from a checkpoint in epoch" in log.read_text() for log in logs]
    assert resumed[-1]
    assert sum(resumed) >= kills / 2
    assert not (folder / "kept").exists()
    assert [path for path in output.parent.iterdir() if path.name[0] != "."] == [output]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_mid_epoch_ends_the_process_with_its_code(folder, processes, number, code):
    """One epoch of seconds: on a busy machine, too, the signal comes before its end."""
    write_samples(folder / "train.npz", n=2000)
    options = {"epochs": 1, "batch_size": 1, "learning_rates": 0.01, "width": 512, "depth": 4}
    options["checkpoint_minutes"] = 1e-4
    usual = call(folder, **options, output=folder / "usual.parquet")
    argv = arguments(folder, **options, checkpoints=folder / "kept")
    process = processes.start(argv, folder / "1.log")
    wait_until(lambda: len(named(folder)) > 0, within=60)  # it is under way
    os.kill(process, number)
    assert processes.code(process) == code
    assert not (folder / "out").exists()
    with np.load(named(folder)[0]) as state:
        assert state["epoch"] == 1
        assert state["steps"].min() < 2000
    told = (folder / "1.log").read_text()
    assert "stopped by a signal in epoch 1; call again to go on" in told
    assert processes.code(processes.start(argv, folder / "2.log")) == 0
    assert "going on from a checkpoint in epoch 1" in (folder / "2.log").read_text()
    assert (folder / "out/depth-1.parquet").read_bytes() == usual


def test_the_script_itself_tells_a_scheduler_that_it_was_stopped(folder):
    """As a shell runs it, not only as a function."""
    options = {"epochs": 10**6, "checkpoint_minutes": 1e-4, "checkpoints": folder / "kept"}
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    with subprocess.Popen(
        [sys.executable, SCRIPT, *arguments(folder, **options)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: len(named(folder)) > 0, within=60)
        process.terminate()
        told = process.communicate()[1]
    assert process.returncode == 143
    assert told.splitlines()[-1].endswith("; call again to go on")
    assert "Traceback" not in told


def test_two_processes_in_one_folder_both_write_the_right_bytes(folder, processes):
    options = {"epochs": 20, "checkpoint_epochs": 1}
    usual = call(folder, **options, output=folder / "usual.parquet")
    argv = arguments(folder, **options, checkpoints=folder / "kept")
    for turn in range(4):
        if turn % 2:  # both go on from what a third has left
            stop(folder, 20, **options)
        logs = [folder / f"{turn}-{number}.log" for number in range(2)]
        both = [processes.start(argv, log) for log in logs]
        codes = [processes.code(process) for process in both]
        assert codes == [0, 0], "".join(log.read_text() for log in logs)
        assert (folder / "out/depth-1.parquet").read_bytes() == usual
        (folder / "out/depth-1.parquet").unlink()
        (folder / "out").rmdir()


# --- pauses ---------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the clock which pauses look at."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def set_to(seconds: float) -> None:
        now[0] = 1000.0 + seconds

    return set_to


def test_a_pause_is_wanted_when_it_is_due(clock):
    interruption = Interruption(every=10)
    seen = []
    for seconds in (0, 9.9, 10, 11):
        clock(seconds)
        seen.append(interruption.wanted())
    assert seen == [False, False, True, True]
    interruption.saved(0.01)
    for seconds, due in ((11, False), (20.9, False), (21, True)):
        clock(seconds)
        assert interruption.wanted() == due


def test_saving_takes_a_hundredth_of_the_time_at_most(clock):
    interruption, seconds, saving = Interruption(every=10), 0.0, 0.0
    for cost in (0.01, 0.1, 1, 3, 3, 0.01):
        while not interruption.wanted():
            seconds += 0.5
            clock(seconds)
        seconds, saving = seconds + cost, saving + cost
        clock(seconds)
        interruption.saved(cost)
        clock(seconds + max(10, 100 * cost) - 0.01)
        assert not interruption.wanted()
        clock(seconds + max(10, 100 * cost) + 0.01)
        assert interruption.wanted()
        clock(seconds)
    assert SHARE == 100


def test_without_an_interval_a_pause_is_never_due(clock):
    interruption = Interruption(every=float("inf"))
    clock(1e12)
    assert not interruption.wanted()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_noted_inside_and_handled_as_before_outside(number):
    heard: list[int] = []
    before = signal.signal(number, lambda number, _: heard.append(number))
    try:
        own = signal.getsignal(number)
        with Interruption(every=60) as interruption:
            assert not interruption.wanted()
            signal.raise_signal(number)
            assert interruption.wanted()
            assert (interruption.signal, heard) == (number, [])
        assert signal.getsignal(number) is own
        signal.raise_signal(number)
        assert heard == [number]
        with pytest.raises(LookupError), Interruption(every=60):
            raise LookupError
        assert signal.getsignal(number) is own
    finally:
        signal.signal(number, before)

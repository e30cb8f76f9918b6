"""What jobs need, against measured times and memory, and what they ask for."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles import min_angle
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_workflow import allocation, jobs, resources, training_resources
from ntk_workflow.resources import Samples, Size
from ntk_workflow.training_resources import training
from ntk_workflow.trainings import initial_kernels
from ntk_workflow.trainings.settings import TrainingSettings
from tests.plans import BASE, run_of

GRID = BASE | {"width": 512, "kernel_size": 512, "blocks": "all", "samples": "all"}
MNIST = Samples(60000, 784)


def settings(**values) -> TrainingSettings:
    return TrainingSettings(**{"seeds": (1,), "epochs": 1, "learning_rates": (0.1,)} | values)


def row(rule: str, activation: str = "relu", samples: Samples = MNIST, **config) -> Size:
    w = SimpleNamespace(activation=activation, kernel="empirical_ntk", draw="all")
    return getattr(resources, rule)(w, GRID | config, samples)


# Of MNIST, each by itself: activation, depth, seeds; peak memory in MB, seconds of a core.
MEASURED = [
    ("compute_spectrum", "relu", 10, 5, 812, 146),
    ("compute_spectrum", "linear", 10, 5, 878, 252),
    ("compute_infinite_spectrum", "relu", 3, 5, 540, 41),
    ("compute_min_angle", "relu", 8, 5, 2944, 366),
    ("compute_min_angle", "relu", 0, 5, 932, 173),
    ("compute_infinite_min_angle", "relu", 7, 1, 683, 31),
]


@pytest.mark.parametrize(("rule", "activation", "depth", "seeds", "megabytes", "seconds"), MEASURED)
def test_rows_take_what_they_were_measured_to(rule, activation, depth, seeds, megabytes, seconds):
    size = row(rule, activation, depths=[depth], seeds=range(seeds))
    assert 0.7 < size.seconds / seconds < 1.5
    assert 1.1e6 * megabytes < size.memory < 3e6 * megabytes + 1e9


# Model, samples, depth, width, settings; seconds of a core for one network, without the start.
TRAININGS = [
    ("mlp", 200, 4, 1024, {"epochs": 100, "batch_size": "all", "outputs": "scalar"}, 7.2),
    ("fc_layer_norm", 1600, 32, 512, {"batch_size": 100}, 2.5),
    ("resnet_batch_norm", 1600, 8, 4, {"batch_size": 100}, 1.4),
    ("resnet", 800, 8, 8, {"batch_size": 100}, 1.5),
]


@pytest.mark.parametrize(("model", "n", "depth", "width", "values", "seconds"), TRAININGS)
def test_trainings_take_what_they_were_measured_to(model, n, depth, width, values, seconds):
    image = (32, 32, 3) if "resnet" in model else None
    samples = Samples(n, 64 if model == "mlp" else 3072, image, classes=10)
    one = training(model, settings(width=width, image=image, **values), depth, samples)
    assert 0.5 < (one.seconds - resources.TORCH_START) / seconds < 2


SPHERE = "digits_sphere"
# Jobs of the demo: rule, study, wildcards; peak memory in MB, seconds of a core with the start.
DEMO = [
    ("compute_spectrum", "", {"dataset": "librispeech_sample", "activation": "linear"}, 449, 5.0),
    ("compute_min_angle", "", {"dataset": "digits", "activation": "relu"}, 418, 5.2),
    ("predict_training", "", {"experiment": "fig3", "dataset": "digits"}, 494, 28),
    (
        "predict_training",
        "",
        {"experiment": "gradient_descent", "dataset": "digits_sphere"},
        346,
        4,
    ),
    ("compute_activation_study", "activation", {"dataset": SPHERE}, 146, 8.7),
    ("compute_bounds", "bounds", {"dataset": SPHERE}, 134, 4.8),
    ("measure_phase", "phase", {"part": "map", "activation": "relu"}, 146, 11.1),
    ("measure_phase_of_data", "phase", {"dataset": "patches"}, 175, 2.1),
    ("evaluate_laws", "phase", {}, 148, 8.7),
    ("measure_finite_width", "finite_width", {"dataset": SPHERE}, 284, 16.8),
    ("measure_repairs", "repairs", {"dataset": "digits"}, 125, 14.3),
    ("measure_architectures", "architectures", {"dataset": "digits"}, 468, 54.9),
    ("measure_orthogonality", "orthogonality", {"dataset": "patches"}, 350, 18.5),
    ("measure_linearity", "linearity", {"dataset": "digits"}, 372, 6.5),
    ("measure_precision", "precision", {}, 320, 7.9),
    ("run_claim_experiments", "claim_experiments", {}, 423, 94.9),
]


@pytest.mark.parametrize(("rule", "study", "wildcards", "megabytes", "seconds"), DEMO)
def test_jobs_of_the_demo_take_what_they_were_measured_to(
    rule, study, wildcards, megabytes, seconds
):
    named = {"kernel": "empirical_ntk", "model": "mlp", "activation": "relu"}
    if study in ("orthogonality", "linearity"):
        named["architecture"] = "deep"
    asked = jobs.resources_of(run_of({}), rule, study=study)
    within = 2 if rule.startswith("compute") else 4
    assert 1 / within < asked["core_seconds"](named | wildcards) / seconds < within
    assert 1000 + 1.2 * megabytes < asked["mem_mb"](named | wildcards, attempt=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [512, 10_000, 60_000])
@pytest.mark.parametrize("kernel", ["empirical_ntk", "empirical_nngp"])
def test_memory_is_at_least_what_the_program_requires(m, dtype, kernel):
    mlp = init_mlp(
        784,
        depth=3,
        width=64,
        activation=activations.get("relu"),
        generator=generator(0, "data"),
        dtype=getattr(torch, dtype),
    )
    itemsize = getattr(torch, dtype).itemsize
    needed = EmpiricalKernel(mlp, kernel, MemoryBudget(10**9, 2048, 1)).needed(m, itemsize)
    config = GRID | {"width": 64, "depths": [3], "kernel_size": m, "dtype": dtype}
    w = SimpleNamespace(activation="relu", kernel=kernel)
    size = resources.compute_spectrum(w, config, Samples(m, 784))
    assert needed + 8 * m * 784 <= size.memory <= 2 * needed + 10**9


def test_numbers_of_the_programs_are_theirs():
    assert resources.GRADIENTS == min_angle.MEMORY
    assert training_resources.INITIAL_SAMPLES == initial_kernels.MOST_SAMPLES
    # as the programs have it, all blocks are as many as fit
    assert resources.kernel_blocks(GRID, Samples(1797, 64)) == (512, 3)


@pytest.mark.usefixtures("activation_registry")
def test_kinks_of_the_users_own_functions_cost_where_norms_differ():
    functions = lambda z: z.clamp(-1, 1), lambda z: (z.abs() < 1).to(z)
    activations.register(activations.Activation("hard_tanh", *functions, kinks=(-1.0, 1.0)))
    for rule in ("compute_infinite_spectrum", "compute_infinite_min_angle"):
        own, smooth = row(rule, "hard_tanh"), row(rule, "tanh")
        assert own.seconds > 3 * smooth.seconds > 3 * row(rule, "relu").seconds
        on_sphere = Samples(60000, 784, one_norm=True)
        assert row(rule, "hard_tanh", on_sphere) == row(rule, "tanh", on_sphere)


def test_large_networks_take_the_memory_of_a_seed_and_the_time_of_all():
    def fc(width: int, seeds: int) -> Size:
        several = settings(width=width, seeds=tuple(range(seeds)), learning_rates=(0.1, 0.2))
        return training("fc", several, 64, Samples(5000, 3072))

    assert fc(3000, 1).memory == fc(3000, 10).memory > 4 * 0.57e9 * 4 * 2
    assert fc(3000, 10).seconds == pytest.approx(10 * fc(3000, 1).seconds, rel=0.01)
    assert fc(100, 1).memory < fc(100, 10).memory


def assert_more_costs_no_less(size, data, names, most: int) -> None:
    """Compare drawn sizes, and the same with one of them larger."""
    sizes = {name: data.draw(st.integers(1, most), label=name) for name in names}
    varied, added = data.draw(st.sampled_from(names)), data.draw(st.integers(1, most))
    less, greater = size(**sizes), size(**sizes | {varied: sizes[varied] + added})
    assert less.seconds <= greater.seconds
    assert less.memory <= greater.memory


ROWS = ["compute_spectrum", "compute_infinite_spectrum", "compute_min_angle"]
ROWS += ["compute_infinite_min_angle"]


@pytest.mark.parametrize("rule", ROWS)
@given(data=st.data())
def test_more_of_anything_in_a_row_costs_no_less(rule, data):
    name = data.draw(st.sampled_from(["relu", "linear", "tanh"]))
    fixed = {"full_spectrum_below": data.draw(st.sampled_from([0, 10**9]))}

    def size(n, d, depth, seeds, **config) -> Size:
        config |= {"depths": [depth], "seeds": range(seeds)} | fixed
        return row(rule, name, Samples(n, d), **config)

    assert_more_costs_no_less(
        size, data, ("n", "d", "depth", "seeds", "width", "kernel_size", "blocks"), 2000
    )


@pytest.mark.parametrize("model", ["mlp", "fc_layer_norm"])
@given(data=st.data())
def test_more_of_anything_in_a_training_costs_no_less(model, data):
    # networks share the samples only if they are all that are loaded
    whole = data.draw(st.booleans(), label="whole")

    def size(loaded, d, depth, seeds, rates, samples, **values) -> Size:
        loaded, values["samples"] = (loaded, "all") if whole else (loaded + samples, samples)
        several = {"seeds": tuple(range(seeds)), "learning_rates": tuple(range(1, rates + 1))}
        return training(model, settings(**values, **several), depth, Samples(loaded, d))

    names = ("loaded", "d", "depth", "width", "samples", "epochs", "seeds", "rates")
    assert_more_costs_no_less(size, data, names, 500)


@pytest.mark.parametrize("name", ["orthogonality", "linearity"])
def test_a_study_of_networks_asks_for_the_widest(name):
    def memory(widest: int) -> int:
        plan = run_of({f"{name}_study": {"datasets": ["patches"], "widths": [16, widest]}})
        asked = jobs.resources_of(plan, f"measure_{name}", study=name)["mem_mb"]
        return asked({"dataset": "patches", "architecture": "deep"}, attempt=1)

    assert memory(4096) - memory(1024) > 4 * 8 * 3 * 4096**2 / 1e6


@given(st.floats(0, 1e9), st.integers(0, 10**12), st.integers(1, 5))
def test_requests_leave_room_and_double_with_attempts_up_to_a_day(seconds, memory, attempt):
    size = Size(seconds, memory)
    asked, again = size.runtime(attempt), size.runtime(attempt + 1)
    assert min(24 * 60, max(10, 3 * seconds / 60)) <= asked <= 24 * 60
    assert again == min(24 * 60, 2 * asked)
    asked, again = (10**6 * size.mem_mb(tried) - allocation.SNAKEMAKE for tried in (1, 2))
    assert asked >= 1.25 * memory
    assert again == 2 * asked
    assert size.mem_mb(3) == size.mem_mb(4) == size.mem_mb(5)


def test_a_gpu_counts_where_a_rule_can_use_one():
    large, light = Size(1e6, 1e9, gpu=250), Size(1e6, 1e9)
    assert large.core_seconds(gpu=True) < large.core_seconds() / 10
    assert light.core_seconds(gpu=True) >= light.core_seconds()
    assert light.runtime(threads=1000) < light.runtime()


def test_nothing_heavy_is_imported():
    program = "import sys, ntk_workflow.resources; print(*sys.modules)"
    src = Path(resources.__file__).parents[1]
    names = subprocess.check_output([sys.executable, "-c", program], cwd=src, text=True).split()
    assert not {"torch", "scipy", "pandas", "sklearn", "pyarrow"} & set(names)

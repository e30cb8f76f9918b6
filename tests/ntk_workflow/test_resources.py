from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_workflow import jobs, resources
from ntk_workflow.resources import Samples, Size
from tests.support.runs import BASE, run_of

PLAN = run_of({})
GRID = BASE | {"width": 512, "kernel_size": 512, "blocks": "all", "samples": "all"}


def row(rule: str, activation: str, samples: Samples, **config: Any) -> Size:
    w = SimpleNamespace(activation=activation, kernel="empirical_ntk")
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
    size = row(rule, activation, Samples(60000, 784), depths=[depth], seeds=range(seeds))
    assert 1 / 2 < size.seconds / seconds < 2
    assert 1.1e6 * megabytes < size.memory < 3e6 * megabytes + 2e9


PLAIN = {"epochs": 100, "batch_size": "all", "outputs": "scalar"}
# Model, samples, depth, width, settings; seconds of a core for one network, without the start.
TRAININGS = [
    ("mlp", 200, 4, 1024, PLAIN, 7.2),
    ("fc_layer_norm", 1600, 32, 512, {"overrides": {}}, 2.5),
    ("resnet_batch_norm", 1600, 8, 4, {}, 1.4),
    ("resnet", 800, 8, 8, {}, 1.5),
]


@pytest.mark.parametrize(("model", "n", "depth", "width", "values", "seconds"), TRAININGS)
def test_trainings_take_what_they_were_measured_to(model, n, depth, width, values, seconds):
    samples = Samples(n, 64 if model == "mlp" else 3072, (32, 32, 3), classes=10)
    one = PLAN.config["training"]["deep_fc"] | {"epochs": 1, "samples": "all", "width": width}
    one |= {"seeds": [1], "learning_rates": [0.1]} | values
    w = SimpleNamespace(model=model, depth=str(depth), experiment="one", dataset="any", per_seed="")
    size = resources.train_network(w, {"models": {}, "training": {"one": one}}, samples)
    within = 2 if model == "mlp" else 4
    assert 1 / within < size.seconds / seconds < within


SPHERE = "digits_sphere"
STEPS = {"experiment": "gradient_descent", "dataset": SPHERE}
# Jobs of the demo: rule, study, wildcards; peak memory in MB, seconds of a core with the start.
DEMO = [
    ("compute_spectrum", "", {"dataset": "librispeech_sample", "activation": "linear"}, 449, 5.0),
    ("compute_min_angle", "", {"dataset": "digits", "activation": "relu"}, 418, 5.2),
    ("predict_training", "", {"experiment": "fig3", "dataset": "digits"}, 494, 28),
    ("predict_training", "", STEPS, 346, 4),
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
    asked = jobs.resources_of(PLAN, rule, study=study)
    within = 2 if rule in ("compute_spectrum", "compute_min_angle") else 4
    assert 1 / within < asked["core_seconds"](named | wildcards) / seconds < within
    assert 1000 + 1.2 * megabytes < asked["mem_mb"](named | wildcards, attempt=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [512, 10_000, 60_000])
def test_memory_is_at_least_what_the_program_requires(m, dtype):
    relu, dtypes = activations.get("relu"), {"dtype": getattr(torch, dtype)}
    rng = generator(0, "data")
    mlp = init_mlp(784, depth=3, width=64, activation=relu, generator=rng, **dtypes)
    budget = MemoryBudget(10**9, 2048, 1)
    needed = EmpiricalKernel(mlp, "empirical_ntk", budget).needed(m)
    config = {"width": 64, "depths": [3], "kernel_size": m, "dtype": dtype}
    size = row("compute_spectrum", "relu", Samples(m, 784), **config)
    assert needed + 8 * m * 784 <= size.memory <= 2 * needed + 10**9


@given(st.floats(0, 1e9), st.integers(0, 10**12), st.integers(1, 5))
def test_requests_leave_room_and_double_with_attempts_up_to_a_day(seconds, memory, attempt):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resources, "prepare_dataset", lambda *_: Size(seconds, memory, gpu=250))
        asked = jobs.resources_of(PLAN, "prepare_dataset")
        first, second = (asked["runtime"]({}, attempt + more, threads=1) for more in (0, 1))
        assert min(24 * 60, max(10, 3 * seconds / 60)) <= first <= 24 * 60
        assert second == min(24 * 60, 2 * first)
        assert asked["runtime"]({}, attempt, threads=4) <= first
        megabytes = [asked["mem_mb"]({}, tried) - 1000 for tried in (1, 2, 3, 4)]
        assert megabytes[0] >= 1.25e-6 * memory
        assert megabytes == [times * megabytes[0] for times in (1, 2, 4, 4)]
        on_gpu = jobs.resources_of(PLAN, "prepare_dataset", gpu=True)
        assert on_gpu["core_seconds"]({}) <= asked["core_seconds"]({})

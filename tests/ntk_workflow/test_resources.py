"""What jobs need, against counted operations, programs and measured times; what they ask for."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from ntk_conditioning.angles import min_angle
from ntk_conditioning.duals import piecewise_linear, quadrature
from ntk_conditioning.duals.closed_forms import dual
from ntk_conditioning.kernels import empirical
from ntk_conditioning.memory import PROCESS
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_conditioning.training.descent import Course
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.trainer import Member, Part
from ntk_workflow import allocation, resources, study_resources, training_resources
from ntk_workflow.resources import ResourceEstimate, Row
from ntk_workflow.trainings import initial_kernels
from ntk_workflow.trainings.settings import TrainingSettings
from tests.plans import BASE

RELU = activations.get("relu")
MNIST = Row(n=60000, d=784, depths=[3], seeds=5, blocks=117)


def network(*, d: int, depth: int, width: int):
    return init_mlp(d, depth=depth, width=width, activation=RELU, generator=generator(0, "data"))


def settings(**values) -> TrainingSettings:
    return TrainingSettings(**{"seeds": (1,), "epochs": 1, "learning_rates": (0.1,)} | values)


@pytest.mark.parametrize("depth", [1, 4])
def test_a_kernel_takes_the_operations_of_its_products(depth):
    m, d, width = 512, 100, 128
    with FlopCounterMode(display=False) as counter:
        x = torch.ones(m, d, dtype=torch.float64)
        empirical.ntk(network(d=d, depth=depth, width=width), x)
    row = Row(n=m, d=d, depths=[depth], seeds=1, width=width, kernel_size=m)
    flops = resources.spectrum("relu", row).flops
    eigenvalues = 4 / 3 * m**3 * 4  # at a quarter of the pace
    # Tiles of 256 rows compute 3/4 of all pairs, not a half.
    assert 0.6 < (flops - eigenvalues) / counter.get_total_flops() < 1.1


def operations(_total, a, b, **_) -> int:  # of addmm_, which torch does not count
    return 2 * a[0] * a[1] * b[1]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_training_takes_the_operations_of_its_products(depth):
    n, d, width, classes, epochs = 50, 300, 20, 10, 3
    x = torch.from_numpy(generator(0, "data").standard_normal((n, d))).float()
    cpu = torch.device("cpu")
    loss = make_loss("cross_entropy", outputs="classes", classes=classes, dtype=x.dtype, device=cpu)
    members, parts = [Member(1, 0.01), Member(1, 0.02)], {1: Part(x, torch.arange(n) % classes)}
    shape = Architecture(depth, width, RELU)
    ensemble = Ensemble(shape, loss, members, parts, course=Course(epochs=epochs, batch_size=10))
    in_place = {torch.ops.aten.addmm_: operations}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        while not ensemble.finished:
            ensemble.advance()
    two = settings(width=width, learning_rates=(0.01, 0.02), epochs=epochs, batch_size=10)
    estimate = training_resources.training("mlp", two, depth, loaded=n, d=d, classes=classes)
    weights = d * width + (depth - 1) * width**2 + width * classes
    untested = 2 * estimate.flops - 2 * 2 * weights * n // 5 * (epochs + 1)  # float32
    assert untested / counter.get_total_flops() == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("m", [512, 20000])
@pytest.mark.parametrize("kernel", ["empirical_ntk", "empirical_nngp"])
def test_memory_is_at_least_what_the_program_requires(m, itemsize, kernel):
    mlp = network(d=784, depth=3, width=64).to({4: torch.float32, 8: torch.float64}[itemsize])
    needed = EmpiricalKernel(mlp, kernel, MemoryBudget(10**9, 2048, 1)).needed(m, itemsize)
    row = Row(n=m, d=784, width=64, depths=[3], seeds=1, kernel_size=m, dtype_bytes=itemsize)
    estimate = resources.spectrum("relu", row, kernel)
    assert needed + 8 * m * 784 <= estimate.memory <= 2 * needed + 10**9


def test_numbers_of_the_programs_are_theirs():
    assert resources.GRADIENTS == min_angle.MEMORY
    assert training_resources.INITIAL_SAMPLES == initial_kernels.MOST_SAMPLES
    # as the programs have it, all blocks are as many as fit
    config = BASE | {"kernel_size": 512, "blocks": "all"}
    assert Row.from_config(config, n=1797, d=64).blocks == 3


@pytest.mark.parametrize("name", [*activations.names(), "leaky_relu-0.2"])
@pytest.mark.parametrize("variant", ["", "normalized_"])
def test_cells_of_infinite_width_cost_what_their_activations_need(name, variant):
    name = activations.get(variant + name).name
    row = Row(n=500, d=20, depths=[3], seeds=2, kernel_size=100, blocks=5)
    by_quadrature = (quadrature.QuadratureDual, piecewise_linear.PiecewiseLinearDual)
    bends = isinstance(dual(activations.get(name), np.ones(1)), by_quadrature)
    alike = "tanh" if bends else "linear" if name == "linear" else "relu"
    assert resources.infinite_spectrum(name, row) == resources.infinite_spectrum(alike, row)
    alike = "relu" if activations.get(name).homogeneous else "tanh" if bends else "erf"
    assert resources.infinite_min_angle(name, row) == resources.infinite_min_angle(alike, row)
    row = replace(row, one_norm=False)
    layer = dual(activations.get(name), np.array([1.0, 2.0]))
    integrated = isinstance(layer, piecewise_linear.PiecewiseLinearDual)
    for of in (resources.infinite_spectrum, resources.infinite_min_angle):
        assert (of(name, row).flops > 3 * of("tanh", row).flops) == integrated


@pytest.mark.usefixtures("activation_registry")
def test_kinks_of_the_users_own_functions_cost_where_norms_differ():
    functions = lambda z: z.clamp(-1, 1), lambda z: (z.abs() < 1).to(z)
    activations.register(activations.Activation("hard_tanh", *functions, kinks=(-1.0, 1.0)))
    row = Row(n=500, d=20, depths=[3], seeds=2, kernel_size=100, blocks=5)
    cost, apart = resources.infinite_spectrum, replace(row, one_norm=False)
    one, built_in = cost("hard_tanh", row), cost("tanh", row)
    assert one == replace(built_in, memory=built_in.memory + resources.TORCH - PROCESS)
    assert cost("hard_tanh", apart).flops > 2 * cost("normrelu", apart).flops


# Peak memory in MB and seconds of a core: MNIST, measured.
MEASURED = [
    ("spectrum", "relu", 10, 5, 812, 146),
    ("spectrum", "linear", 10, 5, 878, 252),
    ("infinite_spectrum", "relu", 3, 5, 540, 41),
    ("min_angle", "relu", 8, 5, 2944, 366),
    ("min_angle", "relu", 0, 5, 932, 173),
    ("infinite_min_angle", "relu", 7, 1, 683, 31),
    ("training", "mlp", 4, 1, 442, 17),
]


@pytest.mark.parametrize(("kind", "name", "depth", "seeds", "megabytes", "seconds"), MEASURED)
def test_rates_are_near_to_what_was_measured(kind, name, depth, seeds, megabytes, seconds):
    if kind == "training":
        kind, square = "train_network", {"loss": "square", "outputs": "scalar", "batch_size": "all"}
        two = settings(width=1024, learning_rates=(0.1, 0.2), epochs=100, **square)
        estimate = training_resources.training(name, two, depth, loaded=200, d=64)
    else:
        row = replace(MNIST, depths=[depth], seeds=seeds)
        kind, estimate = f"compute_{kind}", getattr(resources, kind)(name, row)
    assert 1.1e6 * megabytes < estimate.memory < 3e6 * megabytes + 1e9
    assert 0.7 < resources.core_seconds(kind, estimate) / seconds < 1.4


TRAININGS = [
    ("fc_layer_norm", 1600, 32, 512, 2.5),
    ("resnet_batch_norm", 1600, 8, 4, 1.4),
    ("resnet", 800, 8, 8, 1.5),
]


@pytest.mark.parametrize(("model", "n", "depth", "width", "seconds"), TRAININGS)
def test_trainings_take_what_they_were_measured_to(model, n, depth, width, seconds):
    image = (32, 32, 3) if "resnet" in model else None
    one = settings(width=width, batch_size=100, image=image)
    estimate = training_resources.training(model, one, depth, loaded=n, d=3072, classes=10)
    assert 0.5 < estimate.flops / resources.CORE["train_network"].rate / seconds < 2


def test_large_networks_take_the_memory_of_a_seed_and_the_time_of_all():
    def fc(width: int, seeds: int) -> ResourceEstimate:
        several = settings(width=width, seeds=tuple(range(seeds)), learning_rates=(0.1, 0.2))
        return training_resources.training("fc", several, 64, loaded=5000, d=3072)

    assert fc(3000, 1).memory == fc(3000, 10).memory > 4 * 0.57e9 * 4 * 2
    assert fc(3000, 10).flops == pytest.approx(10 * fc(3000, 1).flops)
    assert fc(100, 1).memory < fc(100, 10).memory


def test_a_job_of_many_depths_does_the_work_of_all_in_the_memory_of_one():
    def at(*depths: int) -> ResourceEstimate:
        return resources.spectrum("relu", replace(MNIST, depths=depths))

    assert at(1, 3).flops == pytest.approx(at(1).flops + at(3).flops)
    assert at(1, 3).memory == at(3).memory > at(1).memory


def assert_more_costs_no_less(estimate, data, names, most: int) -> None:
    """Compare the estimates of drawn sizes, and of the same with one of them larger."""
    sizes = {name: data.draw(st.integers(1, most), label=name) for name in names}
    varied, added = data.draw(st.sampled_from(names)), data.draw(st.integers(1, most))
    less, greater = estimate(**sizes), estimate(**sizes | {varied: sizes[varied] + added})
    assert less.flops <= greater.flops
    assert less.memory <= greater.memory


ROWS = {"spectrum": ["relu", "linear"], "infinite_spectrum": ["relu", "linear", "tanh"]}
ROWS |= {"min_angle": ["relu", "linear"], "infinite_min_angle": ["relu", "tanh"]}
SIZES = ("n", "d", "depths", "seeds", "width", "kernel_size", "blocks")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ROWS for name in ROWS[kind]])
@given(data=st.data())
def test_more_of_anything_in_a_row_costs_no_less(kind, name, data):
    fixed = {"full_below": data.draw(st.sampled_from([0, 10**9]))}
    fixed["dtype_bytes"] = data.draw(st.sampled_from([4, 8]))

    def estimate(depths, **sizes) -> ResourceEstimate:
        # from depth 0 to 1 a kernel takes the place of a factor, and may cost less
        return getattr(resources, kind)(name, Row(depths=[depths], **sizes, **fixed))

    assert_more_costs_no_less(estimate, data, SIZES, 2000)


@pytest.mark.parametrize("model", ["mlp", "fc_layer_norm", "kernel"])
@given(data=st.data())
def test_more_of_anything_in_a_training_costs_no_less(model, data):
    # networks share the samples only if they are all that are loaded
    whole = data.draw(st.booleans(), label="whole")

    def estimate(loaded, d, depth, seeds, rates, samples, **values) -> ResourceEstimate:
        loaded, values["samples"] = (loaded, "all") if whole else (loaded + samples, samples)
        several = {"seeds": tuple(range(seeds)), "learning_rates": tuple(range(1, rates + 1))}
        chosen = settings(**values, **several)
        if model == "kernel":
            return training_resources.initial_kernel(
                "mlp", "relu", chosen, depth, loaded=loaded, d=d
            )
        return training_resources.training(model, chosen, depth, loaded=loaded, d=d)

    names = ("loaded", "d", "depth", "width", "samples", "epochs", "seeds", "rates")
    assert_more_costs_no_less(estimate, data, names, 500)


@pytest.mark.parametrize("name", ["orthogonality", "linearity"])
def test_a_study_of_networks_asks_for_the_widest(name):
    study = {"samples": 10, "seeds": [1, 2], "expansions": 2, "radii": [1, 2, 3]}
    study |= {"steps": [10, 100] if name == "orthogonality" else 100}
    study |= {"directions": 10, "activations": ["tanh", "relu"]}
    deep, data = {"hidden": ["m"] * 4}, {"d": 3072, "loaded": 50000}
    small, large = (
        study_resources.feedforward_study(name, study | {"widths": [16, widest]}, deep, **data)
        for widest in (1024, 4096)
    )
    weights = 8 * 3 * 4096**2  # of the layers between hidden ones, without the input's
    assert large.memory - small.memory > 4 * weights
    # products of a layer's size, and of vectors with its weights, of which linearity has no others
    least, most = {"orthogonality": (16, 64), "linearity": (15, 17)}[name]
    assert least < large.flops / small.flops < most


@given(st.floats(0, 1e18), st.floats(0, 1e12), st.integers(1, 5))
def test_requests_leave_room_and_grow_with_attempts_up_to_a_day(flops, size, attempt):
    estimate, kind = ResourceEstimate(flops, size), "compute_spectrum"
    asked, again = (resources.runtime(kind, estimate, tried) for tried in (attempt, attempt + 1))
    least = 3 * resources.core_seconds(kind, estimate) / 60
    assert min(24 * 60, max(10, least)) <= asked <= 24 * 60
    assert again == min(24 * 60, 2 * asked)
    asked, again = (resources.mem_mb(estimate, tried) for tried in (attempt, attempt + 1))
    assert 1e6 * asked >= 1.25 * size + allocation.SNAKEMAKE
    assert again >= asked


def test_a_gpu_counts_where_a_rule_can_use_one():
    large = ResourceEstimate(1e16, 1e9)
    on_core = resources.core_seconds("train_network", large)
    assert resources.core_seconds("train_network", large, gpu=True) < on_core / 10
    light = ("compute_infinite_spectrum", large)
    assert resources.core_seconds(*light, gpu=True) == resources.core_seconds(*light)


def test_nothing_heavy_is_imported():
    program = "import sys, ntk_workflow.resources; print(*sys.modules)"
    src = Path(resources.__file__).parents[1]
    names = subprocess.check_output([sys.executable, "-c", program], cwd=src, text=True).split()
    assert not {"torch", "scipy", "pandas", "sklearn", "pyarrow"} & set(names)

"""The work of jobs: against counted operations, the programs, and measured times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import compute_training_kernel
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from ntk_conditioning.angles.min_angle import MEMORY
from ntk_conditioning.duals import quadrature, shifted_relu
from ntk_conditioning.duals.closed_forms import dual
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import EmpiricalKernel, MemoryBudget
from ntk_conditioning.training import Architecture, Ensemble, Member, Part, make_loss
from ntk_workflow import resources
from ntk_workflow.resources import DEFAULTS, Model

RELU = activations.get("relu")
SIZES = {"n": 60000, "d": 784, "width": 512}
BLOCKS = {"blocks": 117, "kernel_size": 512}
KIND = "compute_spectrum"
WIDTH = 64


def network(*, d: int, depth: int, width: int):
    chance = np.random.default_rng(0)
    return init_mlp(d, depth=depth, width=width, activation=RELU, generator=chance)


@pytest.mark.parametrize("depth", [1, 4])
def test_work_of_a_kernel_is_that_of_its_products(depth):
    m, d, width = 512, 100, 128
    mlp = network(d=d, depth=depth, width=width)
    with FlopCounterMode(display=False) as counter:
        empirical.ntk(mlp, torch.ones(m, d, dtype=torch.float64))
    sizes = {"n": m, "d": d, "width": width, "seeds": 1, "blocks": 1, "kernel_size": m}
    found = resources.spectrum(**sizes, depths=[depth]).flops
    kernel = found - resources.work._conditioning(m, True)
    # Tiles of 256 rows compute 3/4 of all pairs, not a half.
    assert 0.6 < kernel / counter.get_total_flops() < 1.1


def operations(total, a, b, **_) -> int:
    """Return the operations of a product from the shapes of its factors."""
    return 2 * a[0] * a[1] * b[1]


@pytest.mark.parametrize("depth", [1, 3])
def test_work_of_a_training_is_that_of_its_products(depth):
    n, d, width, classes, epochs = 50, 300, 20, 10, 3
    chance = generator(0, "data")
    x = torch.from_numpy(chance.standard_normal((n, d))).float()
    cpu = torch.device("cpu")
    loss = make_loss("cross_entropy", outputs="classes", classes=classes, dtype=x.dtype, device=cpu)
    ensemble = Ensemble(
        Architecture(depth, width, RELU),
        loss,
        [Member(1, 0.01), Member(1, 0.02)],
        {1: Part(x, torch.arange(n) % classes)},
        epochs=epochs,
        batch=10,
    )
    in_place = {torch.ops.aten.addmm_: operations}  # which torch does not count
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        while not ensemble.finished:
            ensemble.advance()
    sizes = {"n": n, "d": d, "width": width, "depth": depth, "classes": classes}
    found = resources.training(**sizes, networks=2, epochs=epochs, batch=10)
    assert 2 * found.flops / counter.get_total_flops() == pytest.approx(1, rel=0.02)  # in float32


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("m", [512, 20000])
@pytest.mark.parametrize("kernel", ["empirical_ntk", "empirical_nngp"])
def test_memory_is_at_least_what_the_program_requires(m, itemsize, threads, kernel):
    mlp = network(d=784, depth=3, width=64).to({4: torch.float32, 8: torch.float64}[itemsize])
    budget = MemoryBudget(10**9, full_spectrum_below=2048, threads=threads)
    needed = EmpiricalKernel(mlp, kernel, budget).needed(m, itemsize)
    sizes = {"n": m, "d": 784, "width": 64, "depths": [3], "seeds": 1, "blocks": 1}
    sizes |= {"kernel_size": m, "dtype_bytes": itemsize, "threads": threads}
    found = resources.spectrum(**sizes, embeddings=kernel == "empirical_nngp")
    assert needed + 8 * m * 784 <= found.memory <= 2 * needed + 10**9


def test_numbers_of_the_programs_are_theirs():
    assert resources.GRADIENTS == MEMORY
    assert resources.KERNEL_SAMPLES == compute_training_kernel.MOST_SAMPLES


@pytest.mark.parametrize("name", [*activations.names(), "leaky_relu-0.2"])
@pytest.mark.parametrize("variant", ["", "normalized_"])
def test_cells_of_infinite_width_cost_what_their_activations_need(name, variant):
    activation = activations.get(variant + name)
    sizes = {"n": 500, "d": 20, "depths": [3], "seeds": 2}
    blocks = {"kernel_size": 100, "blocks": 5, "full_below": 2048}
    q = np.ones(1)
    by_quadrature = (quadrature.QuadratureDual, shifted_relu.ShiftedReLUDual)
    bends = isinstance(dual(activation, q), by_quadrature)
    expected = resources.infinite_spectrum(
        **sizes, **blocks, linear=activation.name == "linear", closed_form=not bends
    )
    spectrum = ("compute_infinite_spectrum", activation.name)
    assert resources.cells(*spectrum, **sizes, **blocks, width=WIDTH) == expected
    expected = resources.infinite_min_angle(
        **sizes, homogeneous=activation.homogeneous, closed_form=not bends
    )
    angle = ("compute_infinite_min_angle", activation.name)
    assert resources.cells(*angle, **sizes, width=WIDTH) == expected


@pytest.mark.parametrize("name", ["relu", "linear", "tanh"])
def test_cells_of_finite_width_cost_what_their_rule_does(name):
    sizes = {"n": 500, "d": 20, "depths": [1, 3], "seeds": 2, "width": WIDTH}
    blocks = {"kernel_size": 100, "blocks": 5, "full_below": 50, "dtype_bytes": 4}
    found = resources.cells("compute_spectrum", name, **sizes, **blocks)
    assert found == resources.spectrum(**sizes, **blocks, linear=name == "linear")
    found = resources.cells("compute_min_angle", name, **sizes)
    assert found == resources.min_angle(**sizes, linear=name == "linear")
    with pytest.raises(ValueError, match="train_network computes no cells"):
        resources.cells("train_network", name, **sizes)


# (work, peak memory in MB, seconds of a core): MNIST and the like, measured.
MEASURED = {
    "spectrum": (
        KIND,
        resources.spectrum(**SIZES, **BLOCKS, depths=[10], seeds=5),
        *(812, 146),
    ),
    "linear spectrum": (
        KIND,
        resources.spectrum(**SIZES, **BLOCKS, depths=[10], seeds=5, linear=True),
        *(878, 252),
    ),
    "infinite spectrum": (
        "compute_infinite_spectrum",
        resources.infinite_spectrum(n=60000, d=784, **BLOCKS, depths=[3], seeds=5),
        *(540, 41),
    ),
    "angle": ("compute_min_angle", resources.min_angle(**SIZES, depths=[8], seeds=5), *(2944, 366)),
    "linear angle": (
        "compute_min_angle",
        resources.min_angle(**SIZES, depths=[0], seeds=5),
        932,
        173,
    ),
    "infinite angle": (
        "compute_infinite_min_angle",
        resources.infinite_min_angle(n=60000, d=784, depths=[7], seeds=1),
        *(683, 31),
    ),
    "training": (
        "train_network",
        resources.training(
            n=200, d=64, width=1024, depth=4, classes=1, networks=2, epochs=100, batch=200
        ),
        *(442, 17),
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_defaults_are_near_to_what_was_measured(name):
    kind, work, megabytes, seconds = MEASURED[name]
    assert 1.1e6 * megabytes < work.memory < 3e6 * megabytes + 1e9
    assert 0.7 < Model().seconds(kind, work) / seconds < 1.4


def test_modules_take_what_they_were_measured_to():
    """Seconds of a core, networks of depth 8 to 32 for an epoch; a factor of two."""
    images = {
        "d": 3072,
        "image": (32, 32, 3),
        "classes": 10,
        "networks": 1,
        "seeds": 1,
        "epochs": 1,
    }
    measured = [
        ("fc_layer_norm", {"n": 1600, "n_test": 400, "depth": 32, "width": 512}, 2.5),
        ("fc_batch_norm", {"n": 400, "n_test": 100, "depth": 8, "width": 2000}, 2.6),
        ("resnet_batch_norm", {"n": 1600, "n_test": 400, "depth": 8, "width": 4}, 1.4),
        ("resnet", {"n": 800, "n_test": 100, "depth": 8, "width": 8}, 1.5),
        ("resnet_batch_norm", {"n": 100, "n_test": 100, "depth": 32, "width": 16}, 1.9),
    ]
    rate = DEFAULTS["train_network"].rate
    for model, sizes, seconds in measured:
        work = resources.module_training(model, **images, **sizes, batch=100)
        assert 0.5 < work.flops / rate / seconds < 2


def test_large_networks_take_the_memory_of_a_seed_and_the_time_of_all():
    sizes = {"n": 5000, "d": 3072, "width": 3000, "depth": 64, "classes": 10, "epochs": 3}
    one, ten = (
        resources.module_training("fc", **sizes, networks=2 * seeds, seeds=seeds, batch=128)
        for seeds in (1, 10)
    )
    assert one.memory == ten.memory > 4 * 0.57e9 * 4 * 2
    assert ten.flops == pytest.approx(10 * one.flops)
    narrow = sizes | {"width": 100}
    one, ten = (
        resources.module_training("fc", **narrow, networks=2 * seeds, seeds=seeds, batch=128)
        for seeds in (1, 10)
    )
    assert one.memory < ten.memory


COUNTS = st.integers(1, 5000)
FUNCTIONS = {
    resources.preparation: {"n", "d"},
    resources.description: {"n", "d"},
    resources.spectrum: {"n", "d", "width", "seeds", "blocks", "kernel_size", "threads"},
    resources.infinite_spectrum: {"n", "d", "seeds", "blocks", "kernel_size", "threads"},
    resources.min_angle: {"n", "d", "width", "seeds"},
    resources.infinite_min_angle: {"n", "d", "seeds"},
    resources.training: {
        *("n", "d", "width", "classes", "networks", "epochs", "batch", "n_test", "draws"),
        *("threads", "depth"),
    },
    resources.training_kernel: {"n", "d", "width", "seeds", "depth"},
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@given(data=st.data())
def test_more_of_anything_costs_no_less(function, data):
    names = sorted(FUNCTIONS[function])
    sizes = {name: data.draw(COUNTS, label=name) for name in names}
    more = dict(sizes)
    if "kernel_size" in names:
        fixed = {"full_below": data.draw(st.sampled_from([0, 10**9]), label="full_below")}
        sizes |= fixed
        more |= fixed
    if "linear" in (function.__kwdefaults__ or {}):
        fixed = {"linear": data.draw(st.booleans(), label="linear")}
        sizes |= fixed
        more |= fixed
    varied = data.draw(st.sampled_from(names), label="varied")
    more[varied] += data.draw(COUNTS, label="added")
    if "depths" in function.__annotations__:
        # from 0 to 1 a kernel takes the place of a factor, and may cost less
        depth = data.draw(st.integers(1, 20), label="depth")
        sizes["depths"], more["depths"] = [depth], [depth + data.draw(st.integers(0, 3))]
    less, greater = function(**sizes), function(**more)
    assert less.flops <= greater.flops
    assert less.memory <= greater.memory


def test_a_job_of_many_depths_does_the_work_of_all_in_the_memory_of_one():
    one, other = (resources.spectrum(**SIZES, **BLOCKS, depths=[L], seeds=2) for L in (1, 3))
    both = resources.spectrum(**SIZES, **BLOCKS, depths=[1, 3], seeds=2)
    assert both.flops == pytest.approx((one + other).flops)
    assert both.memory == (one + other).memory == other.memory


def test_nothing_heavy_is_imported():
    program = "import sys, ntk_workflow.resources; print(*sys.modules)"
    source = Path(resources.__file__).parents[2]
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "scipy", "pandas", "sklearn", "pyarrow"} & set(loaded)

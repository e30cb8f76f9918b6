"""The layer-wise kernel is the product of explicit Jacobians, and behaves like a kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev, vmap

from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.gradient_tiles import Products, factor_bytes, panel_rows
from ntk_conditioning.networks.mlp import MLP, forward, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning, conditioning_from_factor

# Two float64 routes to one sum of some thousand products.
REL = 1e-12
EPS32 = float(np.finfo(np.float32).eps)


def network(d, *, depth, width=8, activation="relu", seed=1, dtype=torch.float64):
    return init_mlp(
        d,
        depth=depth,
        width=width,
        activation=activations.get(activation),
        generator=generator(seed, "init"),
        dtype=dtype,
    )


def inputs(n, d, *, seed=1):
    return torch.from_numpy(generator(seed, "data").standard_normal((n, d)))


def explicit_jacobian(mlp, x):
    """Return the gradients (n, p) by reverse differentiation of each output: slow and obvious."""

    def output(weights, row):
        return forward(MLP(weights, mlp.activation), row.unsqueeze(0)).squeeze(0)

    layers = vmap(jacrev(output), in_dims=(None, 0))(mlp.weights, x)
    return torch.cat([layer.reshape(len(x), -1) for layer in layers], dim=1)


def assert_same_kernel(k, expected, rel=REL):
    assert k.shape == expected.shape
    assert (k - expected).abs().max() <= rel * expected.abs().max()


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("activation", ["relu", "linear", "tanh", "leaky_relu"])
def test_kernel_is_the_product_of_explicit_jacobians(activation, depth):
    mlp, x, x2 = network(5, depth=depth, activation=activation), inputs(7, 5), inputs(4, 5, seed=2)
    jacobian, jacobian2 = explicit_jacobian(mlp, x), explicit_jacobian(mlp, x2)
    for tile in (None, 1, 3, 7, 64):
        assert_same_kernel(empirical.ntk(mlp, x, tile=tile), jacobian @ jacobian.T)
        assert_same_kernel(empirical.ntk(mlp, x, x2, tile=tile), jacobian @ jacobian2.T)


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("activation", ["relu", "selu"])
def test_nngp_is_the_part_of_the_ntk_that_the_last_layer_gives(activation, depth):
    mlp, x, x2 = (
        network(5, depth=depth, activation=activation),
        inputs(37, 5),
        inputs(11, 5, seed=2),
    )
    last, last2 = (explicit_jacobian(mlp, each)[:, -mlp.weights[-1].numel() :] for each in (x, x2))
    for options in ({}, {"tile": 4, "memory": 0}, {"tile": 8, "memory": 1000}):
        k = empirical.nngp(mlp, x, **options)
        assert torch.equal(k, k.T)
        assert_same_kernel(k, last @ last.T)
        assert_same_kernel(empirical.nngp(mlp, x, x2, **options), last @ last2.T)


@pytest.mark.parametrize("width", [3, 40])
def test_nngp_of_a_linear_network_is_its_maps_square(width):
    mlp, x = network(6, depth=3, width=width, activation="linear"), inputs(9, 6)
    factor = x @ empirical.linear_embedding_map(mlp)
    assert factor.shape == (9, min(6, width))
    assert_same_kernel(factor @ factor.T, empirical.nngp(mlp, x))
    with pytest.raises(empirical.NotLinearError, match="relu has no linear factor"):
        empirical.linear_embedding_map(network(6, depth=1))


@given(
    n=st.integers(1, 40),
    n2=st.integers(1, 40),
    tile=st.integers(1, 20),
    panel=st.integers(0, 45),
    depth=st.integers(0, 3),
)
def test_panels_and_tiles_of_any_size_give_the_kernel(n, n2, tile, panel, depth):
    mlp, x, x2 = network(4, depth=depth), inputs(n, 4), inputs(n2, 4, seed=2)
    memory = 2 * panel * factor_bytes(mlp, mlp.dtype)
    k = empirical.ntk(mlp, x, tile=tile, memory=memory)
    jacobian, jacobian2 = explicit_jacobian(mlp, x), explicit_jacobian(mlp, x2)
    assert torch.equal(k, k.T)
    assert_same_kernel(k, jacobian @ jacobian.T)
    k = empirical.ntk(mlp, x, x2, tile=tile, memory=memory)
    assert_same_kernel(k, jacobian @ jacobian2.T)


def most_alive(monkeypatch, call):
    """Return the most samples whose gradients were alive at once during a call."""
    alive, most = weakref.WeakKeyDictionary(), [0]

    def counting(mlp, x):
        factors = gradient_factors(mlp, x)
        alive[factors] = len(x)
        most[0] = max(most[0], sum(alive.values()))
        return factors

    with monkeypatch.context() as patch:
        patch.setattr(empirical, "gradient_factors", counting)
        call()
    return most[0]


@pytest.mark.parametrize("second", [None, 60])
@pytest.mark.parametrize("panel", [16, 31])
def test_gradients_keep_to_the_memory(monkeypatch, panel, second):
    mlp, x = network(5, depth=2), inputs(61, 5)
    x2 = second and inputs(second, 5, seed=2)
    memory = 2 * panel * factor_bytes(mlp, mlp.dtype)
    most = most_alive(monkeypatch, lambda: empirical.ntk(mlp, x, x2, tile=8, memory=memory))
    assert 0 < most <= 2 * panel


@pytest.fixture
def _precision_is_restored():
    allowed = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(allowed)


@pytest.mark.usefixtures("_precision_is_restored")
def test_a_caller_who_allows_less_precision_gets_the_same_kernel(monkeypatch):
    """Where the processor has bfloat16, products of this size would be other ones."""
    mlp, x = network(64, depth=2, width=96, dtype=torch.float32), inputs(260, 64).float()
    torch.set_float32_matmul_precision("highest")
    expected, expected2 = empirical.ntk(mlp, x), empirical.ntk(mlp, x, x[:130])
    at = set()
    kernel = Products.kernel

    def recording(*arguments):
        at.add(torch.get_float32_matmul_precision())
        kernel(*arguments)

    def factors(mlp, x):
        at.add(torch.get_float32_matmul_precision())
        return gradient_factors(mlp, x)

    monkeypatch.setattr(Products, "kernel", recording)
    monkeypatch.setattr(empirical, "gradient_factors", factors)
    torch.set_float32_matmul_precision("medium")
    assert torch.equal(empirical.ntk(mlp, x), expected)
    assert torch.equal(empirical.ntk(mlp, x, x[:130]), expected2)
    assert at == {"highest"}
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize("depth", [0, 2])
def test_no_samples_have_an_empty_kernel(depth):
    mlp, x = network(3, depth=depth), inputs(4, 3)
    assert empirical.ntk(mlp, x[:0], x).shape == (0, 4)
    assert empirical.ntk(mlp, x, x[:0]).shape == (4, 0)
    assert empirical.ntk(mlp, x[:0]).shape == (0, 0)


PEAK = """
import json, sys
from pathlib import Path
import numpy as np
import torch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import init_mlp

def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))

n, width, memory = map(int, sys.argv[1:])
torch.set_num_threads(1)
draw = np.random.default_rng(1)
mlp = init_mlp(10, depth=5, width=width, activation="relu", generator=draw)
x = torch.from_numpy(draw.standard_normal((n, 10)))
empirical.ntk(mlp, x[:300], tile=256, memory=1)  # loads libraries
Path("/proc/self/clear_refs").write_text("5")  # the peak is what is resident now, see proc(5)
before = resident("VmRSS")
k = empirical.ntk(mlp, x, tile=256, memory=memory)
print(json.dumps({"growth": resident("VmHWM") - before, "kernel": k.nbytes}))
"""


def peak(*arguments):
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    path = {"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, env=path, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak")
def test_peak_memory_is_the_kernel_and_what_gradients_may_take():
    """All gradients at once would take 80 MB beside a kernel of 50 MB; here they may take 20."""
    n, width, memory = 2500, 400, 20_000_000
    row_bytes = factor_bytes(network(10, depth=5, width=width), torch.float64)
    size = panel_rows(n, row_bytes=row_bytes, memory=memory, least=256)
    assert 256 < size < n / 8
    assert 2 * size * row_bytes <= memory
    found = peak(n, width, memory)
    assert found["kernel"] == 8 * n**2
    # 16 MB hold what one panel needs while it is computed, a tile, and gaps in the heap. The
    # growth was found to be 77 MB, with one panel of all samples 171 MB.
    assert found["growth"] < 1.6 * found["kernel"] + 16_000_000


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_float32_spectrum_agrees_to_float32_rounding(activation):
    """Elementwise agreement is no fair test of ReLU: rounding may switch a unit."""
    mlp, x = network(10, depth=3, width=32, activation=activation), inputs(20, 10)
    single = empirical.ntk(mlp.to(torch.float32), x.to(torch.float32))
    assert single.dtype == torch.float32
    found = conditioning(single.numpy()).eigenvalues
    expected = conditioning(empirical.ntk(mlp, x).numpy()).eigenvalues
    # A symmetric matrix's eigenvalues move by no more than the norm of its change.
    assert np.abs(found - expected).max() < 32 * EPS32 * expected[0]


@given(
    n=st.integers(2, 12),
    depth=st.integers(0, 4),
    activation=st.sampled_from(["relu", "tanh", "linear", "gelu"]),
    tile=st.integers(1, 14),
    seed=st.integers(0, 99),
)
def test_kernel_is_symmetric_positive_and_follows_its_samples(n, depth, activation, tile, seed):
    mlp, x = network(4, depth=depth, activation=activation, seed=seed), inputs(n, 4, seed=seed)
    k = empirical.ntk(mlp, x, tile=tile)
    assert torch.equal(k, k.T)
    eigenvalues = torch.linalg.eigvalsh(k)
    assert eigenvalues[0] >= -n * torch.finfo(torch.float64).eps * eigenvalues[-1]
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    assert_same_kernel(empirical.ntk(mlp, x[order], tile=tile), k[order][:, order])


@given(c=st.floats(1e-3, 1e3), depth=st.integers(0, 4), slope=st.sampled_from(["", "-0.2"]))
def test_homogeneous_kernel_scales_with_the_square_of_the_inputs(c, depth, slope):
    mlp, x = network(4, depth=depth, activation=f"leaky_relu{slope}"), inputs(5, 4)
    assert_same_kernel(empirical.ntk(mlp, c * x), c**2 * empirical.ntk(mlp, x))


@pytest.mark.parametrize("depth", [0, 1, 3, 10])
@pytest.mark.parametrize("n", [4, 30])
def test_linear_factor_gives_the_kernel(n, depth):
    """n = 30 > d = 6 takes the QR route, n = 4 the stacked one."""
    mlp, x = network(6, depth=depth, activation="linear"), inputs(n, 6)
    factor = empirical.linear_factor(mlp, x)
    assert factor.shape[1] <= 6 or n < 6
    assert_same_kernel(factor @ factor.T, empirical.ntk(mlp, x))


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
def test_rank_of_a_linear_network_is_that_of_its_inputs(depth):
    mlp, x = network(5, depth=depth, activation="linear"), inputs(40, 5)
    by_kernel = conditioning(empirical.ntk(mlp, x).numpy())
    by_factor = conditioning_from_factor(empirical.linear_factor(mlp, x).numpy())
    assert by_kernel.numerical_rank == by_factor.numerical_rank == 5
    assert by_kernel.kappa is None
    assert by_factor.kappa is None
    assert by_factor.kappa_nonzero == pytest.approx(by_kernel.kappa_nonzero, abs=0, rel=1e-10)


def test_linear_factor_resolves_condition_numbers_beyond_the_kernel():
    """Two rows 1e-8 apart, against 60 digits on the same float64 weights and inputs."""
    mlp, x = network(9, depth=3, activation="linear"), inputs(6, 9)
    x[1] = x[0] + 1e-8 * inputs(1, 9, seed=2)[0]
    with mpmath.workdps(60):
        maps = [mpmath.matrix(w.tolist()) for w in mlp.weights]
        scales = [mpmath.mpf(mlp.scale(layer)) for layer in (1, 2, 3)]
        alphas = [mpmath.matrix(x.tolist())]
        for weight, scale in zip(maps, scales, strict=False):
            alphas.append(alphas[-1] * weight.T * scale)
        back, kernel = mpmath.matrix([[1]]), alphas[-1] * alphas[-1].T
        for weight, scale, alpha in zip(maps[:0:-1], scales[::-1], alphas[-2::-1], strict=True):
            back = back * weight * scale
            kernel += alpha * alpha.T * mpmath.fsum(b**2 for b in back)
        eigenvalues = sorted(mpmath.eigsy(kernel, eigvals_only=True))
        expected = float(eigenvalues[-1] / eigenvalues[0])
    assert expected > 1e15
    found = conditioning_from_factor(empirical.linear_factor(mlp, x).numpy())
    # sigma_min is off by eps sigma_max, a part eps sqrt(kappa) of itself.
    assert found.kappa == pytest.approx(
        expected, abs=0, rel=100 * np.finfo(float).eps * expected**0.5
    )


def test_linear_factor_needs_a_linear_network():
    with pytest.raises(empirical.NotLinearError, match="relu"):
        empirical.linear_factor(network(3, depth=1), inputs(2, 3))
    assert empirical.linear_factor(network(3, depth=0), inputs(2, 3)).shape == (2, 3)

"""Modules without a kernel are refused in a line with the remedy, and nothing is left changed."""

import re
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from benchmarks.memory import STATUS, peak
from ntk_conditioning import ntk
from ntk_conditioning.kernels.differentiated_modules import (
    InputsError,
    MixedSamplesError,
    ModuleError,
    OutputsError,
    ParametersError,
    TrainingModeError,
)
from tests.ntk_conditioning.gradients import network
from tests.ntk_conditioning.kernels.networks_to_differentiate import OfFunction, vision_transformer

X = torch.linspace(-1, 1, 12).view(4, 3)


def linear():
    return nn.Linear(3, 2)


CENTRED = OfFunction(lambda m, x: x - x.mean(0))
LAZY = nn.Sequential(linear(), nn.LazyBatchNorm1d()).eval()
FROZEN = linear().requires_grad_(False)
NO_STATISTICS = nn.Sequential(linear(), nn.BatchNorm1d(2, track_running_stats=False)).eval()
TUPLE = OfFunction(lambda m, x: (m.layer(x), x), layer=linear())
IMAGES = OfFunction(lambda m, x: m.layer(x).view(-1, 2, 1), layer=linear())
MEAN = OfFunction(lambda m, x: m.layer(x).mean(), layer=linear())
DETACHED = OfFunction(lambda m, x: m.layer(x).detach(), layer=linear())
DROPPING = OfFunction(lambda m, x: nn.functional.dropout(m.layer(x), 0.5), layer=linear())
NOISY = OfFunction(lambda m, x: m.layer(x) + torch.randn(len(x), 2), layer=linear())
#: By the last sample, by the largest entry of all, by the number of samples, if it is large.
MIXING = [
    lambda m, x: m.layer(x - x[-1:]),
    lambda m, x: m.layer(x / x.abs().max()),
    lambda m, x: m.layer(x) / len(x),
    lambda m, x: m.layer(x) * (1 + (len(x) > 3)),
]


@pytest.mark.parametrize(
    ("model", "x", "options", "error", "words"),
    [
        (nn.Sequential(linear(), nn.BatchNorm1d(2)), X, {}, TrainingModeError, "1 .*eval()"),
        (NO_STATISTICS, X, {}, TrainingModeError, "track_running_stats"),
        (nn.Sequential(linear(), nn.Dropout()), X, {}, TrainingModeError, "1 .*eval()"),
        (DROPPING, X, {}, TrainingModeError, "dropout"),
        (LAZY, X, {}, ModuleError, "1 has no shape yet: call the module once"),
        (NOISY, X, {}, TrainingModeError, "random"),
        (nn.Sequential(linear(), CENTRED), X, {}, MixedSamplesError, "^1 mixes samples"),
        *((OfFunction(f, layer=linear()), X, {}, MixedSamplesError, "mixes") for f in MIXING),
        (None, X, {}, ModuleError, "NoneType"),
        (DETACHED, X, {}, OutputsError, "detach"),
        (linear(), X.numpy(), {}, InputsError, "torch.from_numpy"),
        (linear(), X, {"x2": X.double()}, InputsError, r"float64.*x.to\(torch.float32\)"),
        (linear(), X, {"tile": -3}, InputsError, "tile=-3"),
        (linear(), X, {"parameters": []}, ParametersError, "at least one"),
        (linear(), X, {"outputs": True}, OutputsError, "index below 2"),
        (linear(), X.long(), {}, InputsError, r"no embedding.*x.to\(torch.float32\)"),
        (linear(), X.double(), {}, InputsError, r"float64.*x.to\(torch.float32\)"),
        (linear(), X[:, :2], {}, InputsError, "shape"),
        (linear(), X[:0], {}, InputsError, "at least one"),
        (linear(), (X, X[:2]), {}, InputsError, "4, 2 samples"),
        (linear(), X.to("meta"), {}, InputsError, "device="),
        (linear(), X, {"device": "cuda"}, InputsError, "model.to"),
        (FROZEN, X, {}, ParametersError, "requires_grad_"),
        (linear(), X, {"parameters": "wieght"}, ParametersError, "did you mean 'weight'"),
        (linear(), X, {"parameters": lambda name, p: False}, ParametersError, "no trainable"),
        (linear(), X, {"parameters": ["!*"]}, ParametersError, "leave no"),
        (linear(), X, {"outputs": "all"}, OutputsError, "mean_of_kernels"),
        (TUPLE, X, {}, OutputsError, "wrap"),
        (IMAGES, X, {}, OutputsError, "flatten"),
        (MEAN, X, {}, OutputsError, "shape"),
        (network(3), X.double(), {"parameters": "W"}, ParametersError, "leave out"),
        (network(3), X.double(), {"outputs": 1}, OutputsError, "index below 1"),
    ],
)
def test_mistakes_are_told_in_a_line(model, x, options, error, words):
    with pytest.raises(error) as caught:
        ntk(model, x, **options)
    assert re.search(words, str(caught.value))
    assert "\n" not in str(caught.value)


class Counting(nn.Module):
    """A layer that counts its calls in buffers and changes its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("again", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.again = self.again + 1
        return x.mul_(2.0)


@pytest.mark.parametrize(
    ("last", "call"),
    [
        (nn.Identity(), nullcontext()),
        (CENTRED, pytest.raises(MixedSamplesError)),
        (OfFunction(lambda m, x: (x, torch.rand(3))[0]), pytest.raises(TrainingModeError)),
    ],
    ids=["right", "mixing", "drawing"],
)
def test_module_inputs_and_random_numbers_are_left_as_they_were(last, call):
    model = nn.Sequential(Counting(), nn.Linear(3, 2), nn.BatchNorm1d(2), last).eval()
    model[0].train()
    model[1].bias.requires_grad_(False)
    model[1].weight.grad = torch.ones(2, 3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    x, drawn = X.clone(), torch.get_rng_state()
    with call:
        ntk(model, x)
    assert torch.equal(x, X)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert modes == [module.training for module in model.modules()]
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])
    assert [p.requires_grad for p in model.parameters()] == [True, False, True, True]
    assert model[1].weight.grad.equal(torch.ones(2, 3))
    assert model[2].weight.grad is None
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.is_grad_enabled()


def test_a_caller_without_gradients_gets_the_same_kernel():
    model, x = vision_transformer(), torch.randn(4, 3, 8, 8)
    k = ntk(model, x)
    with torch.no_grad():
        assert torch.equal(ntk(model, x), k)
    with torch.inference_mode():
        assert torch.equal(ntk(model, x.clone()), k)


def kernel_of_images(n, memory):
    """Return what computes a kernel, after libraries are loaded."""
    layers = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 128, 3), nn.ReLU()
    pooled = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1))
    model, x = pooled.double(), torch.randn(n, 3, 8, 8, dtype=torch.float64)
    ntk(model, x[:4])
    return lambda: ntk(model, x, memory=memory)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells the peak")
def test_memory_is_kept(monkeypatch):
    """Of 700 images whose gradients with respect to the largest weight alone would take 110 MB."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")  # without gaps in the heap
    n, memory = 700, 40_000_000
    # What the products' packing holds beside.
    most = 8 * n**2 + memory + 15_000_000
    assert peak(kernel_of_images, n, memory, threads=1).growth < most

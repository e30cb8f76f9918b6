"""The user's networks: what they are given, and every mistake by one line."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations, user_models

EXAMPLE = Path(__file__).parents[3] / "docs/examples/own_network.py"
HEAD = """\
import numpy as np
import torch
from torch import nn

def build(*, depth, width, activation, shape, outputs, generator):
"""
LINEAR = """\
    network = nn.Linear(shape[0], outputs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=generator)
"""


def written(folder: Path, body: str) -> Path:
    path = folder / "mine.py"
    path.write_text(body if "def " in body else HEAD + body)
    return path


def tried(path: Path, image=None) -> None:
    size = {"d": 64, "image": image, "depth": 2, "width": 8, "outputs": 3}
    user_models.require_trainable(
        user_models.load(path, "build"), **size, activation=activations.get("relu")
    )


# What stands below the def, or a file of its own -> how its line goes on after the file's name.
MISTAKES = {
    "def other(): pass": "build() is not there; write def build(*, depth, width, activation,",
    "def build(depth, width): pass": "build() takes other arguments (got an unexpected keyword",
    "raise ValueError('a\\nb') # def ": "line 1: ValueError: a b",
    "    return nn.Linear(shape, outputs)": (
        "build() fails at depth 2, width 8, shape (64,): line 6: TypeError: "
    ),
    "    return 1": "build() returns a int, and not a torch.nn.Module",
    "    return nn.Flatten()": "build() returns a module without weights to train",
    "    return nn.Linear(shape[0], outputs)": "build() gives other weights each time: draw all",
    LINEAR + "    return nn.Sequential(nn.Conv2d(1, 1, 3), network)": "build() gives other weights",
    LINEAR + "    network.weight.data *= np.random.rand()\n    return network": (
        "build() gives other weights each time: draw all from generator, or begin with "
        "torch.manual_seed(generator.initial_seed())"
    ),
    "    torch.manual_seed(0)\n    return nn.Linear(shape[0], outputs)": (
        "build() gives the same weights for every seed"
    ),
    LINEAR
    + "    return nn.Sequential(network, nn.Linear(1, 1))[:1].append(nn.Unflatten(1, (1, 3)))": (
        "build() gives a network whose outputs for 2 samples are (2, 1, 3); with outputs=3 they"
    ),
    LINEAR + "    return nn.Sequential(nn.Unflatten(1, (2, 32)), network)": (
        "build() gives a network that fails on 2 samples of shape (64,): RuntimeError"
    ),
    LINEAR + "    return nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, 64)), network)": (
        "build() gives a network that fails on 3 samples of shape (64,): RuntimeError"
    ),
    LINEAR + "    network.weight.data.log_()\n    return network": (
        "build() draws weights that are not finite: weight"
    ),
    LINEAR + "    return nn.Sequential(network, nn.Dropout())": (
        "build() gives a network whose outputs differ from one call to the next, as with dropout"
    ),
}


@pytest.mark.parametrize("body", MISTAKES)
def test_a_mistake_is_one_line(tmp_path, body):
    path = written(tmp_path, body)
    with pytest.raises(UserError) as caught:
        tried(path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: {MISTAKES[body]}")


def test_torchs_usual_initialisation_can_be_kept(tmp_path):
    """With its seed set in the function, which changes nothing outside."""
    seeded = "    torch.manual_seed(generator.initial_seed())\n"
    path = written(tmp_path, seeded + "    return nn.Linear(shape[0], outputs)")
    state = torch.random.get_rng_state()
    tried(path)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_example_is_built_from_a_seed(dtype):
    """Two colours of 6 × 4 pixels: shape, type, sizes by hand, and weights of the gain's scale."""
    size = {"d": 48, "image": (6, 4, 2), "depth": 2, "width": 32, "outputs": 3}
    size["activation"] = activations.get("relu")
    model = user_models.load(EXAMPLE, "build")
    one, other = (
        user_models.make_user_network(model, np.random.default_rng(seed), **size, dtype=dtype)
        for seed in (1, 2)
    )
    f, u = one(torch.ones(5, 2, 6, 4, dtype=dtype))
    assert (f.shape, f.dtype, u) == ((5, 3), dtype, None)
    assert not torch.equal(f, other(torch.ones(5, 2, 6, 4, dtype=dtype))[0])
    second = dict(one.named_parameters())["body.0.3.weight"]
    assert second.var().item() == pytest.approx(2 / (9 * 32), rel=0.1)  # 9216 weights
    expected = user_models.measure_sizes(model, **size)
    convolutions, norms, head = 9 * 2 * 32 + 9 * 32 * 32, 2 * 2 * 32, 4 * 32 * 3
    assert expected.weights == convolutions + norms + head
    assert expected.products == 24 * convolutions + head
    assert [*one.rate_groups()] == [1.0]

"""The user's networks: what they are given, and every mistake by one line."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations, user_models

EXAMPLE = Path(__file__).parents[3] / "docs/examples/own_network.py"
BUILD = """\
import numpy as np
import torch
from torch import nn

def build(*, depth, width, activation, shape, outputs, generator):
    network = nn.Linear(shape[0], outputs)
    for parameter in network.parameters():
        parameter.data.normal_(generator=generator)
    return """


def tried(folder, text):
    """Check the network that a file builds, or one that returns what the text says."""
    path = folder / "mine.py"
    path.write_text(text if "def " in text else BUILD + text)
    size = {"d": 64, "image": None, "depth": 2, "width": 8, "outputs": 3}
    user_models.require_trainable(
        user_models.load(path, "build"), **size, activation=activations.get("relu")
    )


# A file, or what is returned -> how the line of the error goes on after the file's name.
MISTAKES = {
    "def other(): pass": "build() is not there; write def build(*, depth, width, activation,",
    "def build(depth, width): pass": "build() takes other arguments (got an unexpected keyword",
    "raise ValueError('a\\nb') # def ": "line 1: ValueError: a b",
    "nn.Linear(shape, 1)": "build() fails at depth 2, width 8, shape (64,): line 9: TypeError: ",
    "1": "build() returns a int, and not a torch.nn.Module",
    "nn.Flatten()": "build() returns a module without weights to train",
    "nn.Linear(shape[0], outputs)": (
        "build() gives other weights each time: draw all from generator, or begin with "
        "torch.manual_seed(generator.initial_seed())"
    ),
    "nn.Sequential(nn.Conv2d(1, 1, 3), network)": "build() gives other weights each time",
    "network.apply(lambda m: m.weight.data.mul_(np.random.rand()))": "build() gives other weights",
    "torch.manual_seed(0) and nn.Linear(64, 3)": "build() gives the same weights for every seed",
    "nn.Sequential(network, nn.Unflatten(1, (1, 3)))": (
        "build() gives a network whose outputs for 2 samples are (2, 1, 3); with outputs=3 they"
    ),
    "nn.Sequential(nn.Unflatten(1, (2, 32)), network)": (
        "build() gives a network that fails on 2 samples of shape (64,): RuntimeError"
    ),
    "nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, 64)), network)": (
        "build() gives a network that fails on 3 samples of shape (64,): RuntimeError"
    ),
    "network.apply(lambda m: m.weight.data.log_())": "build() draws weights that are not finite: w",
    "nn.Sequential(network, nn.Dropout())": (
        "build() gives a network whose outputs differ from one call to the next, as with dropout"
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_line(tmp_path, text):
    with pytest.raises(UserError) as caught:
        tried(tmp_path, text)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path / 'mine.py'}: {MISTAKES[text]}")


def test_torchs_usual_initialisation_can_be_kept(tmp_path):
    """With its seed set in the function, which changes nothing outside."""
    state = torch.random.get_rng_state()
    tried(tmp_path, "torch.manual_seed(generator.initial_seed()) and nn.Linear(64, 3)")
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

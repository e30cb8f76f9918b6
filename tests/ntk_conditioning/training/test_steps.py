"""Ensembles of modules: torch's own descent, and what is measured."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from ntk_conditioning.seeds import generator
from ntk_conditioning.training import trainer
from ntk_conditioning.training.steps import PADDING as P
from ntk_conditioning.training.steps import crop_flip, draw_moves
from ntk_conditioning.training.trainer import NetworkSpec
from tests.ntk_conditioning.training.ensembles import ensemble, networks, split
from tests.support.trainings import finish

pytestmark = pytest.mark.usefixtures("one_thread")

IMAGE, SHAPE = (6, 5, 2), (2, 6, 5)
MEMBERS = tuple(NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.02, 0.05))


def network(name: str, **options):
    depth = 8 if name.startswith("resnet") else 2
    return networks(name, image=IMAGE, depth=depth, width=4, activation="selu", **options)


def make(name="fc_batch_norm", members=MEMBERS, *, dtype=torch.float64, **more):
    options = {"epochs": 3, "batch_size": 4, "dtype": dtype} | more
    return ensemble(network(name, dtype=dtype), members, n=11, shape=SHAPE, test=7, **options)


def test_crops_and_mirror_images_are_those_of_a_loop():
    x, moves = split(0, 40, *SHAPE).x, draw_moves(3, 2, 40)
    result = crop_flip(x, torch.from_numpy(moves))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (P, P), (P, P)))
    for image, framed, (top, left, mirrored) in zip(result.numpy(), padded, moves, strict=True):
        expected = framed[:, top : top + 6, left : left + 5]
        np.testing.assert_array_equal(image, expected[:, :, ::-1] if mirrored else expected)


def test_moves_follow_from_seed_and_epoch_and_are_spread_evenly():
    moves = draw_moves(3, 2, 20_000)
    np.testing.assert_array_equal(moves, draw_moves(3, 2, 20_000))
    for other in (draw_moves(4, 2, 20_000), draw_moves(3, 1, 20_000)):
        assert (moves == other).all(1).mean() < 0.02
    for column, choices in zip(moves.T, (9, 9, 2), strict=True):
        expected, counts = 20_000 / choices, np.bincount(column, minlength=choices)
        assert len(counts) == choices
        assert abs(counts - expected).max() < 5 * expected**0.5  # standard deviations, or more


def test_augmentation_changes_the_training_and_not_what_is_measured():
    plain, moved = make(), make(augmentation="crop_flip")
    for name, values in finish(plain).metrics.items():
        other = finish(moved).metrics[name]
        np.testing.assert_array_equal(values[0], other[0])
        assert not np.allclose(values[1:], other[1:])


def test_the_mean_dot_product_is_that_of_all_pairs(monkeypatch):
    """Also where samples are evaluated in parts."""
    monkeypatch.setattr(trainer, "EVALUATED", 3)
    trained = make("resnet_batch_norm", MEMBERS[:1])
    trained.advance()
    model, (x, labels) = network("resnet_batch_norm")(generator(1, "init")), split(101, 7, *SHAPE)
    with torch.no_grad():
        f, u = model.eval()(x)
    cosines = [nn.functional.cosine_similarity(*pair, dim=0) for pair in permutations(u, 2)]
    expected = np.mean(cosines), nn.functional.cross_entropy(f, labels).item()
    found = [trained.metrics[name][0, 0] for name in ("test_dot_product", "test_loss")]
    assert found == pytest.approx(expected, rel=1e-12)


def test_mixed_precision_is_near_to_single_and_another():
    """bfloat16 has 8 bits: some percent after an epoch."""
    options = {"epochs": 1, "dtype": torch.float32}
    both = [finish(make("fc", **options, mixed_precision=mixed)) for mixed in (False, True)]
    losses = [trained.metrics["train_loss"] for trained in both]
    assert not np.array_equal(*losses)
    np.testing.assert_allclose(*losses, rtol=0.05)

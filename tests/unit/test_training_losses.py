"""Losses have torch's own values and gradients, and predict the class with the closest code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from ntk_conditioning.training import LossError, make_loss
from ntk_conditioning.training.losses import Loss

KINDS = [("cross_entropy", "classes"), ("square", "classes"), ("square", "scalar")]


def loss(name="cross_entropy", outputs="classes", *, classes=4, dtype=torch.float64) -> Loss:
    return make_loss(name, outputs=outputs, classes=classes, dtype=dtype)


def sample(of: Loss, *axes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs (*axes, c) and labels (*axes)."""
    chance = np.random.default_rng(seed)
    f = torch.from_numpy(2 * chance.standard_normal((*axes, of.outputs)))
    return f, torch.from_numpy(chance.integers(0, len(of.codes), axes))


def torchs(name: str, outputs: str, f: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the losses of four classes, by torch's functions and targets written out."""
    if name == "cross_entropy":
        return functional.cross_entropy(f, labels, reduction="none")
    if outputs == "classes":
        target = functional.one_hot(labels, 4).to(f)
    else:
        target = torch.tensor([-1, -1 / 3, 1 / 3, 1], dtype=f.dtype)[labels][:, None]
    return functional.mse_loss(f, target, reduction="none").sum(1) / 2


@pytest.mark.parametrize(("name", "outputs"), KINDS)
def test_values_and_gradients_are_those_of_torch(name, outputs):
    """Within 1e-14: some roundings of numbers that are not above 10."""
    own = loss(name, outputs)
    f, labels = sample(own, 20)
    expected = torchs(name, outputs, f.requires_grad_(), labels)
    (gradient,) = torch.autograd.grad(expected.sum(), f)
    near = {"rtol": 1e-14, "atol": 1e-14}
    torch.testing.assert_close(own.values(f, labels), expected, **near)
    torch.testing.assert_close(own.gradient(f.detach(), labels), gradient, **near)


@pytest.mark.parametrize(("name", "outputs"), KINDS)
def test_an_axis_for_members_is_one_after_the_other(name, outputs):
    own = loss(name, outputs)
    f, labels = sample(own, 3, 5)
    for compute in (own.values, own.gradient, lambda f, _: own.predictions(f)):
        found = compute(f, labels)
        singly = [compute(*pair) for pair in zip(f, labels, strict=True)]
        torch.testing.assert_close(found, torch.stack(singly), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(("name", "outputs"), KINDS)
def test_neither_outputs_nor_labels_are_changed(name, outputs):
    own = loss(name, outputs)
    f, labels = sample(own, 6)
    before = f.clone(), labels.clone()
    own.gradient(f, labels).mul_(7)  # as training does, in place
    own.values(f, labels)
    assert torch.equal(f, before[0])
    assert torch.equal(labels, before[1])


def test_outputs_far_apart_keep_the_cross_entropy_finite():
    own = loss(classes=2, dtype=torch.float32)
    f, wrong = torch.tensor([[1e4, -1e4]]), torch.tensor([1])
    assert own.values(f, wrong).tolist() == [2e4]
    assert own.gradient(f, wrong).tolist() == [[1, -1]]
    assert own.values(f, wrong - 1).tolist() == [0]


@pytest.mark.parametrize("name", ["cross_entropy", "square"])
def test_with_an_output_for_each_class_the_largest_is_predicted(name):
    own = loss(name)
    f, _ = sample(own, 50)
    assert own.predictions(f).tolist() == f.argmax(1).tolist()


def test_with_one_output_the_class_with_the_closest_target_is_predicted():
    own = loss("square", "scalar", classes=5)
    assert own.codes.flatten().tolist() == [-1, -0.5, 0, 0.5, 1]
    f = torch.tensor([[-9.0], [-0.76], [-0.74], [0.24], [0.26], [0.9], [40]], dtype=torch.float64)
    assert own.predictions(f).tolist() == [0, 0, 1, 2, 3, 4, 4]


def test_two_classes_of_one_output_are_told_by_its_sign():
    own = loss("square", "scalar", classes=2)
    assert own.codes.tolist() == [[-1], [1]]
    assert own.predictions(torch.tensor([[-1e-9], [1e-9]], dtype=torch.float64)).tolist() == [0, 1]


def test_codes_have_the_type_that_is_asked_for():
    assert loss(dtype=torch.float32).codes.dtype == torch.float32
    assert [loss(*kind).outputs for kind in KINDS] == [4, 4, 1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"classes": 1}, "the data have 1 class; a classifier needs 2 or more"),
        ({"name": "square", "outputs": "scalar", "classes": 1}, "needs 2 or more"),
        ({"outputs": "scalar"}, "cross_entropy needs an output for each class; set outputs to"),
    ],
)
def test_a_loss_that_does_not_go_with_the_data_is_refused(options, problem):
    with pytest.raises(LossError, match=problem):
        loss(**options)

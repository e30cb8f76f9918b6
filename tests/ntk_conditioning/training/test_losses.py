"""Losses have torch's own values and gradients, and predict the class with the closest code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from ntk_conditioning.training.losses import Loss, LossError, make_loss

every_kind = pytest.mark.parametrize(
    ("name", "outputs"), [("cross_entropy", "classes"), ("square", "classes"), ("square", "scalar")]
)


def make(name="cross_entropy", outputs="classes", *, classes=4, dtype=torch.float64) -> Loss:
    return make_loss(name, outputs=outputs, classes=classes, dtype=dtype)


def sample(of: Loss, *axes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs (*axes, c) and labels (*axes)."""
    rng = np.random.default_rng(0)
    f = torch.from_numpy(2 * rng.standard_normal((*axes, of.outputs)))
    return f, torch.from_numpy(rng.integers(0, len(of.codes), axes))


def torchs(name: str, outputs: str, f: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the losses of four classes, by torch's functions and targets written out."""
    if name == "cross_entropy":
        return functional.cross_entropy(f, labels, reduction="none")
    if outputs == "classes":
        target = functional.one_hot(labels, 4).to(f)
    else:
        target = torch.tensor([-1, -1 / 3, 1 / 3, 1], dtype=f.dtype)[labels][:, None]
    return functional.mse_loss(f, target, reduction="none").sum(1) / 2


@every_kind
def test_values_and_gradients_are_those_of_torch(name, outputs):
    """Within 1e-14: some roundings of numbers that are not above 10."""
    loss = make(name, outputs)
    f, labels = sample(loss, 20)
    expected = torchs(name, outputs, f.requires_grad_(), labels)
    (gradient,) = torch.autograd.grad(expected.sum(), f)
    near = {"rtol": 1e-14, "atol": 1e-14}
    torch.testing.assert_close(loss.values(f, labels), expected, **near)
    torch.testing.assert_close(loss.gradient(f.detach(), labels), gradient, **near)


@every_kind
def test_an_axis_for_members_is_one_after_the_other_and_nothing_is_changed(name, outputs):
    loss = make(name, outputs)
    f, labels = sample(loss, 3, 5)
    before = f.clone(), labels.clone()
    for compute in (loss.values, loss.gradient, lambda f, _: loss.predictions(f)):
        singly = [compute(*pair) for pair in zip(f, labels, strict=True)]
        torch.testing.assert_close(compute(f, labels), torch.stack(singly), rtol=1e-15, atol=1e-15)
    loss.gradient(f, labels).mul_(7)  # as training does, in place
    assert torch.equal(f, before[0])
    assert torch.equal(labels, before[1])


def test_outputs_far_apart_keep_the_cross_entropy_finite():
    loss = make(classes=2, dtype=torch.float32)
    f, wrong = torch.tensor([[1e4, -1e4]]), torch.tensor([1])
    assert loss.values(f, wrong).tolist() == [2e4]
    assert loss.gradient(f, wrong).tolist() == [[1, -1]]
    assert loss.values(f, wrong - 1).tolist() == [0]


@pytest.mark.parametrize("name", ["cross_entropy", "square"])
def test_with_an_output_for_each_class_the_largest_is_predicted(name):
    f, _ = sample(make(name), 50)
    assert make(name).predictions(f).tolist() == f.argmax(1).tolist()


@pytest.mark.parametrize(
    ("classes", "outputs", "predicted"),
    [
        (5, [-9.0, -0.76, -0.74, 0.24, 0.26, 0.9, 40.0], [0, 0, 1, 2, 3, 4, 4]),
        (2, [-1e-9, 1e-9], [0, 1]),
    ],
)
def test_with_one_output_the_class_with_the_closest_target_is_predicted(
    classes, outputs, predicted
):
    loss = make("square", "scalar", classes=classes)
    assert loss.codes.flatten().tolist() == np.linspace(-1, 1, classes).tolist()
    f = torch.tensor(outputs, dtype=torch.float64)[:, None]
    assert loss.predictions(f).tolist() == predicted


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "square", "outputs": "scalar", "classes": 1}, "1 class; a classifier needs 2"),
        ({"outputs": "scalar"}, "cross_entropy needs an output for each class; set outputs to"),
    ],
)
def test_a_loss_that_does_not_go_with_the_data_is_refused(options, problem):
    with pytest.raises(LossError, match=problem):
        make(**options)

"""Losses of classifiers, of outputs f (..., n, c) and labels (..., n) from 0 on.

Class k has a code (c,): the k-th unit vector, or a number from -1 to 1 if there is one output.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ntk_conditioning.errors import UserError


@dataclass(frozen=True)
class Loss:
    """A loss of one sample's outputs; ``codes`` (k, c) are those of the k classes.

    It is -log softmax(f)_y (``softmax``) or |f - code of y|² / 2, of Hessian 1 in the outputs.
    """

    codes: Tensor
    softmax: bool

    @property
    def outputs(self) -> int:
        """The number c of outputs that it takes."""
        return self.codes.shape[1]

    def values(self, f: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of every sample (..., n)."""
        if self.softmax:
            return -f.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
        return (f - self.codes[labels]).square().sum(-1) / 2

    def gradient(self, f: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative (..., n, c) of every sample's loss with respect to its outputs."""
        if self.softmax:
            right = labels[..., None]
            return f.softmax(-1).scatter_add_(-1, right, -f.new_ones(right.shape))
        return f - self.codes[labels]

    def predictions(self, f: Tensor) -> Tensor:
        """Return the class (..., n) whose code is closest to the outputs."""
        # |f - code|² without the square of f, which is the same for all codes
        return (f @ self.codes.T - self.codes.square().sum(1) / 2).argmax(-1)


def make_loss(
    name: Literal["cross_entropy", "square"],
    *,
    outputs: Literal["classes", "scalar"],
    classes: int,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> Loss:
    """Return a loss for data of so many classes.

    ``outputs`` is ``classes``, one for each, or ``scalar``: one, of targets evenly from -1 to 1.

    Raises `UserError` for fewer than two classes, or a cross-entropy of one output.
    """
    if classes < 2:
        raise UserError(f"the data have {classes} class; a classifier needs 2 or more")
    if name == "cross_entropy" and outputs == "scalar":
        raise UserError("cross_entropy needs an output for each class; set outputs to classes")
    if outputs == "classes":
        codes = torch.eye(classes, dtype=dtype, device=device)
    else:
        codes = torch.linspace(-1, 1, classes, dtype=dtype, device=device)[:, None]
    return Loss(codes, softmax=name == "cross_entropy")

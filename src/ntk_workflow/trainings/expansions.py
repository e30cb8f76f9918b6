"""The networks of a training, expanded in their weights where it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.networks.own import OwnModel
from ntk_conditioning.networks.statistics import has_batch_norm
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.linearised import Linearised, initial_weights, tangent
from ntk_conditioning.training.linearised_modules import ModuleTangent, expansions
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.mlp_ensemble import Architecture
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.prediction import UNPREDICTABLE
from ntk_conditioning.training.trainer import Member, Part, Training
from ntk_workflow.cli import UsageError
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.networks import module_maker, require_possible
from ntk_workflow.trainings.settings import Point, TrainingSettings


class Tangents(Protocol):
    """Outputs and kernels of a network at initialisation, at some samples."""

    @property
    def f(self) -> Tensor:
        """The outputs (n, c)."""

    def kernel(self) -> Tensor:
        """Return the NTK (n c, n c) of all outputs, sample by sample."""

    def mean_kernel(self) -> Tensor:
        """Return the mean (n, n) over outputs of the NTK of one."""


class Expansions(Protocol):
    """Networks that differ in their seeds, and are linear in their weights."""

    def at(self, seed: int, x: Tensor) -> Tangents:
        """Return what a seed's network has at samples, in their type."""

    def ensemble(
        self, loss: Loss, members: Sequence[Member], train: Mapping[int, Part], course: Descent
    ) -> Training:
        """Return the expansions before they are trained."""


class PlainExpansions:
    """Those of networks of `networks.mlp`."""

    def __init__(self, architecture: Architecture, *, outputs: int) -> None:
        self._architecture, self._outputs = architecture, outputs

    def at(self, seed: int, x: Tensor) -> Tangents:
        size: Any = {"seed": seed, "like": x}
        weights = initial_weights(self._architecture, x.shape[1], self._outputs, **size)
        return tangent(self._architecture, weights, x)

    def ensemble(
        self, loss: Loss, members: Sequence[Member], train: Mapping[int, Part], course: Descent
    ) -> Training:
        return Linearised(self._architecture, loss, members, train, course=course)


class ModuleExpansions:
    """Those of networks of torch's modules, which ``make`` makes of a generator and a ``dtype``.

    Raises `UsageError` for those with batch normalisation.
    """

    def __init__(self, make: Any) -> None:
        self._make = make
        if has_batch_norm(make(generator(0, "init"), dtype=torch.float32)):
            raise UsageError(f"--model: {UNPREDICTABLE}; predict others")

    def at(self, seed: int, x: Tensor) -> Tangents:
        return ModuleTangent(self._make(generator(seed, "init"), dtype=x.dtype), x)

    def ensemble(
        self, loss: Loss, members: Sequence[Member], train: Mapping[int, Part], course: Descent
    ) -> Training:
        make = expansions(partial(self._make, dtype=next(iter(train.values())).x.dtype))
        course = replace(course, mixed_precision=False)
        return ModuleEnsemble(make, loss, members, train, descent=course)


def initial_expansions(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    own: OwnModel | None = None,
) -> Expansions:
    """Return the expansions of a training's networks, as `networks.make_ensemble` has those."""
    require_possible(point, settings, samples)
    if kind_of(point.model).by_modules:
        return ModuleExpansions(module_maker(point, settings, samples, own))
    architecture = Architecture(point.depth, settings.width, activations.get(point.activation))
    outputs = samples.classes if settings.outputs == "classes" else 1
    return PlainExpansions(architecture, outputs=outputs)

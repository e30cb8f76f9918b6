"""The networks of a training, at initialisation from its settings and afterwards in its table."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import (
    depth_problem,
    kind_of,
    seeds_in_turn,
    sizes,
    width_problem,
)
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.networks.modules import Network, make_network
from ntk_conditioning.networks.own import (
    OwnModel,
    make_own_network,
    measure_sizes,
    require_trainable,
)
from ntk_conditioning.networks.statistics import freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.curves import along_rows, curve_rows
from ntk_conditioning.training.descent import Along
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.measured import Measured
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.trainer import Member, Part, Training
from ntk_workflow.cli import UsageError, logger
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.settings import ALONG, Point, Rates, TrainingSettings

log = logger(__file__)


def turns(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    own: OwnModel | None = None,
) -> list[TrainingSettings]:
    """Return the settings of the ensembles that are trained one after the other.

    Most trainings are one; of large networks there are several, of some seeds each. ``own`` is the
    network if it is the user's own.
    """
    require_possible(point, settings, samples)
    if not kind_of(point.model).by_modules:
        return [settings]
    shape = shape_of(point, settings, samples)
    if own:
        activation = activations.get(point.activation)
        require_trainable(own, **shape, activation=activation)
        weights = measure_sizes(own, **shape, activation=activation).weights
    else:
        weights = sizes(point.model, **shape).weights
    seeds, most = settings.seeds, seeds_in_turn(weights * len(settings.learning_rates))
    return [replace(settings, seeds=seeds[k : k + most]) for k in range(0, len(seeds), most)]


def make_ensemble(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    rates: Rates,
    *,
    device: torch.device,
    products: str,
    own: OwnModel | None = None,
) -> Measured:
    """Return the networks of all ``rates`` at initialisation, with their samples on the device.

    The ``products`` of mlp may be computed "together", see `Ensemble`; ``own`` is that of `turns`.
    """
    by_modules = kind_of(point.model).by_modules
    together = products == "together" and not by_modules
    dtype = getattr(torch, settings.dtype)
    placed: dict[int, Part] = {}

    def part(labelled: PreparedSamples) -> Part:
        if id(labelled) not in placed:  # seeds may share their samples
            x = as_seen(labelled.x, image_of(point, settings)).to(dtype=dtype)
            placed[id(labelled)] = Part(x.to(device), torch.from_numpy(labelled.y).to(device))
        return placed[id(labelled)]

    def parts(of: Mapping[int, PreparedSamples]) -> dict[int, Part]:
        return {seed: part(of[seed]) for seed in settings.seeds}

    members = [Member(seed, rate) for (seed, _), rate in rates.items()]
    codes: dict[str, Any] = {"outputs": settings.outputs, "classes": samples.classes}
    loss = make_loss(settings.loss, **codes, dtype=dtype, device=device)
    test = parts(samples.test) if samples.test else None
    common = (loss, members, parts(samples.train), test)
    ensemble: Measured
    if by_modules:
        make = partial(module_maker(point, settings, samples, own), dtype=dtype)
        ensemble = ModuleEnsemble(make, *common, descent=settings.descent)
    else:
        architecture = Architecture(point.depth, settings.width, activations.get(point.activation))
        ensemble = Ensemble(architecture, *common, course=settings.descent, together=together)
    if settings.kernels_along:
        ensemble.measure_along(Along(**dict(zip(ALONG, settings.kernels_along, strict=True))))
    relative = ", ".join(f"{rate:g}" for rate in sorted(settings.learning_rates))
    relative += "" if settings.rate_unit == "one" else f" {settings.rate_unit}"
    precision = settings.dtype + (", products of bfloat16" if settings.mixed_precision else "")
    log.info(
        "device %s, %s, %s: %d networks (%d seeds, rates %s), %s of depth %d, width %d",
        *(device, precision, "together" if together else "one by one"),
        *(len(members), len(settings.seeds), relative),
        *(point.model, point.depth, settings.width),
    )
    log.info(
        "%d samples of %d features in %d classes, %d steps an epoch, %s test samples",
        *(*samples.shape, samples.classes, ensemble.steps_per_epoch, samples.n_test or "no"),
    )
    return ensemble


def module_maker(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    own: OwnModel | None = None,
) -> Callable[..., Network]:
    """Return what makes a network of torch's modules of a generator and a ``dtype``."""
    kind = partial(make_own_network, own) if own else partial(make_network, point.model)
    activation = activations.get(point.activation)
    return partial(kind, **shape_of(point, settings, samples), activation=activation)


def as_seen(x: NDArray[np.float64], image: tuple[int, int, int] | None) -> Tensor:
    """Return samples (n, d) or, if they are images, (n, colours, height, width)."""
    seen = torch.from_numpy(x)
    return seen if image is None else seen.reshape(len(x), *image).movedim(-1, 1).contiguous()


def initial_network(
    name: str,
    x: NDArray[np.float64],
    *,
    seed: int,
    depth: int,
    width: int,
    activation: Activation,
    image: tuple[int, int, int] | None,
    own: OwnModel | None = None,
) -> tuple[MLP | Network, Tensor]:
    """Return a network with one output at initialisation, and samples (n, d) as it takes them.

    Batch norms have the statistics of these samples, see `freeze_statistics`.

    Raises `UsageError` if samples and size make no such network.
    """
    rng, d = generator(seed, "init"), x.shape[1]
    require_network(name, d, depth=depth, width=width, image=image)
    size: Any = {"depth": depth, "width": width, "activation": activation}
    if not kind_of(name).by_modules:
        return init_mlp(d, **size, generator=rng), torch.from_numpy(x)
    kind = partial(make_own_network, own) if own else partial(make_network, name)
    network = kind(rng, d=d, image=image, **size, outputs=1, dtype=torch.float64)
    seen = as_seen(x, image if takes_images(name) else None)
    freeze_statistics(network, seen)
    return network, seen


def takes_images(name: str) -> bool:
    """Return whether a network takes images where samples are such."""
    return kind_of(name).needs_images or kind_of(name).family == "own"


def shape_of(point: Point, settings: TrainingSettings, samples: LabelledSamples) -> dict[str, Any]:
    """Return the sizes of networks and of their samples, as what makes networks takes them."""
    return {
        "d": samples.shape[1],
        "image": settings.image,
        "depth": point.depth,
        "width": settings.width,
        "outputs": samples.classes if settings.outputs == "classes" else 1,
    }


def image_of(point: Point, settings: TrainingSettings) -> tuple[int, int, int] | None:
    """Return the shape of samples that are images to the networks, or to what is done before."""
    images = takes_images(point.model) or settings.augmentation != "none"
    return settings.image if images else None


def require_possible(point: Point, settings: TrainingSettings, samples: LabelledSamples) -> None:
    """Raise `UsageError` for networks, images or batches that do not go together."""
    model, (n, d), image = kind_of(point.model), samples.shape, settings.image
    if not model.by_modules and not settings.descent.plain:
        raise UsageError(
            f"{point.model} is trained with momentum only; leave weight decay, decays, "
            "augmentation and mixed precision out"
        )
    require_network(point.model, d, depth=point.depth, width=settings.width, image=image)
    if image is None and settings.augmentation != "none":
        raise UsageError("images are needed; give --image HEIGHT WIDTH COLOURS")
    batch = n if settings.batch_size == "all" else settings.batch_size
    if model.normalization == "batch" and n % batch == 1:
        raise UsageError(
            f"--batch-size {batch}: an epoch of {n} samples ends with a step of one, which has no "
            "variance to normalise by; take another size"
        )


def require_network(
    name: str, d: int, *, depth: int, width: int, image: tuple[int, int, int] | None
) -> None:
    """Raise `UsageError` if samples of ``d`` features and a size make no network of this kind."""
    if problem := depth_problem(name, depth):
        raise UsageError(f"--depth {depth}: {problem}")
    if problem := width_problem(name, width):
        raise UsageError(f"--width {width}: {problem}")
    if image is None and kind_of(name).needs_images:
        raise UsageError("images are needed; give --image HEIGHT WIDTH COLOURS")
    if image is not None and math.prod(image) != d:
        shape = " x ".join(map(str, image))
        raise UsageError(f"--image: {shape} is not the {d} features of a sample")


def ensemble_rows(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    rates: Rates,
    ensemble: Training,
) -> list[dict[str, Any]]:
    """Return the rows of the table of the curves of `make_ensemble`, with its settings."""
    columns, epochs = set(tables.get("training").schema.names), ensemble.course.evaluated
    values = _columns(point, settings, samples)
    labels = {name: value for name, value in values.items() if name in columns}
    return [
        row
        for curve in _curves(ensemble, rates, ensemble.METRICS)
        for row in curve_rows(labels, epochs=epochs, **curve)
    ]


def kernel_rows(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    rates: Rates,
    ensemble: Measured,
) -> list[dict[str, Any]]:
    """Return the rows of the table of the kernels along training, none if there are none."""
    values = _columns(point, settings, samples)
    labels = values | {"n_train": values["n"], "n": ensemble.block_size}
    return [
        row
        for curve in _curves(ensemble, rates, ensemble.metrics)
        for row in along_rows(labels, epochs=ensemble.measured, **curve)
    ]


def _columns(point: Point, settings: TrainingSettings, samples: LabelledSamples) -> dict[str, Any]:
    (n, d), batch = samples.shape, settings.batch_size
    values = asdict(point) | asdict(settings)
    values |= {"n": n, "d": d, "n_test": samples.n_test, "classes": samples.classes}
    return values | {
        "batch_size": n if batch == "all" else min(batch, n),
        "decay_at": " ".join(map(str, settings.decay_at)) or "none",
        "image": " ".join(map(str, image_of(point, settings) or ["none"])),
    }


def _curves(ensemble: Training, rates: Rates, metrics: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, ((seed, relative), rate) in enumerate(rates.items()):
        yield {
            "seed": seed,
            "relative_rate": relative,
            "rate": rate,
            "steps_per_epoch": ensemble.steps_per_epoch,
            "metrics": {name: ensemble.metrics[name][:, number].tolist() for name in metrics},
            "diverged": int(ensemble.diverged[number]),
        }

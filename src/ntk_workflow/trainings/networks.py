"""The networks of a training, at initialisation from its settings and afterwards in its tables."""

import math
from dataclasses import asdict, dataclass, replace
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
from ntk_conditioning.training.losses import Loss, make_loss
from ntk_conditioning.training.measured import Measured
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.trainer import Member, Part
from ntk_workflow.cli import UsageError, logger
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.settings import Rates, TrainingSettings

log = logger(__file__)

Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingTask:
    """A network of an experiment, and how and on what it is trained.

    ``own`` is the network if it is the user's own.
    """

    experiment: str
    dataset: str
    model: str
    activation: str
    depth: int
    own: OwnModel | None
    settings: TrainingSettings
    samples: LabelledSamples

    @property
    def names(self) -> dict[str, Any]:
        """What names the network in its tables."""
        keys = ("experiment", "dataset", "model", "activation", "depth")
        return {key: getattr(self, key) for key in keys}

    @property
    def by_modules(self) -> bool:
        """Whether the network is made of torch's modules."""
        return kind_of(self.model).by_modules

    @property
    def outputs(self) -> int:
        """The number of the network's outputs."""
        return self.samples.classes if self.settings.outputs == "classes" else 1

    @property
    def architecture(self) -> Architecture:
        """What an ensemble of mlp needs to know of its networks."""
        return Architecture(self.depth, self.settings.width, activations.get(self.activation))

    @property
    def size(self) -> dict[str, Any]:
        """Sizes and activation, as what makes networks of torch's modules takes them."""
        of_samples = {"d": self.samples.shape[1], "image": self.settings.image}
        of_network = {"depth": self.depth, "width": self.settings.width, "outputs": self.outputs}
        return of_samples | of_network | {"activation": activations.get(self.activation)}

    @property
    def image(self) -> tuple[int, int, int] | None:
        """The shape of samples that are images to the network, or to what is done before."""
        images = takes_images(self.model) or self.settings.augmentation != "none"
        return self.settings.image if images else None

    def make(self, rng: np.random.Generator, *, dtype: torch.dtype) -> Network:
        """Return a network of torch's modules."""
        if self.own:
            return make_own_network(self.own, rng, **self.size, dtype=dtype)
        return make_network(self.model, rng, **self.size, dtype=dtype)

    def loss(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Loss:
        """Return the loss of the training."""
        kind: Any = {"outputs": self.settings.outputs, "classes": self.samples.classes}
        return make_loss(self.settings.loss, **kind, dtype=dtype, device=device)


def require_possible(task: TrainingTask) -> None:
    """Raise `UsageError` for what is known of networks and samples only when these are read."""
    settings, (n, d) = task.settings, task.samples.shape
    size: Any = {"depth": task.depth, "width": settings.width, "image": settings.image}
    require_network(task.model, d, **size)
    batch = n if settings.batch_size == "all" else settings.batch_size
    if kind_of(task.model).normalization == "batch" and n % batch == 1:
        raise UsageError(
            f"--batch-size {batch}: an epoch of {n} samples ends with a step of one, which has no "
            "variance to normalise by; take another size"
        )
    if task.own:
        require_trainable(task.own, **task.size)


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


def seed_batches(task: TrainingTask) -> list[TrainingTask]:
    """Return the ensembles that are trained one after the other, of some seeds each.

    Most trainings are one; of large networks there are several.
    """
    if not task.by_modules:
        return [task]
    size, seeds = task.size, task.settings.seeds
    activation = size.pop("activation")
    if task.own:
        weights = measure_sizes(task.own, **size, activation=activation).weights
    else:
        weights = sizes(task.model, **size).weights
    most = seeds_in_turn(weights * len(task.settings.learning_rates))
    parts = [seeds[k : k + most] for k in range(0, len(seeds), most)]
    return [replace(task, settings=replace(task.settings, seeds=part)) for part in parts]


def make_ensemble(task: TrainingTask, rates: Rates, device: torch.device) -> Measured:
    """Return the networks of all ``rates`` at initialisation, with their samples on the device.

    On a GPU the products of all networks of mlp are computed together, see `Ensemble`.
    """
    settings, samples, dtype = task.settings, task.samples, getattr(torch, task.settings.dtype)
    placed: dict[int, Part] = {}

    def part(labelled: PreparedSamples) -> Part:
        if id(labelled) not in placed:  # seeds may share their samples
            x = as_seen(labelled.x, task.image).to(dtype=dtype)
            placed[id(labelled)] = Part(x.to(device), torch.from_numpy(labelled.y).to(device))
        return placed[id(labelled)]

    train = {seed: part(samples.train[seed]) for seed in settings.seeds}
    test = {seed: part(samples.test[seed]) for seed in settings.seeds} if samples.test else None
    members = [Member(seed, rate) for (seed, _), rate in rates.items()]
    common = (task.loss(dtype, device), members, train, test)
    ensemble: Measured
    if task.by_modules:
        make = partial(task.make, dtype=dtype)
        ensemble = ModuleEnsemble(make, *common, descent=settings.descent)
    else:
        how: Any = {"course": settings.descent, "together": device.type == "cuda"}
        ensemble = Ensemble(task.architecture, *common, **how)
    if settings.kernels_along:
        block, points = settings.kernels_along
        ensemble.measure_along(Along(samples=block, points=points))
    log.info(
        "device %s, %s, %d networks of width %d, %d samples of %d features, %d steps an epoch",
        *(device, settings.dtype, len(members), settings.width),
        *(*samples.shape, ensemble.steps_per_epoch),
    )
    return ensemble


def as_seen(x: NDArray[np.float64], image: tuple[int, int, int] | None) -> Tensor:
    """Return samples (n, d) or, if they are images, (n, colours, height, width)."""
    seen = torch.from_numpy(x)
    return seen if image is None else seen.reshape(len(x), *image).movedim(-1, 1).contiguous()


def takes_images(name: str) -> bool:
    """Return whether a network takes images where samples are such."""
    return kind_of(name).needs_images or kind_of(name).family == "own"


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


def training_rows(task: TrainingTask, rates: Rates, ensemble: Measured) -> tuple[Rows, Rows]:
    """Return the rows of the tables of curves and of kernels along training."""
    (n, d), batch = task.samples.shape, task.settings.batch_size
    labels = {
        **task.names,
        **asdict(task.settings),
        "n": n,
        "d": d,
        "n_test": task.samples.n_test,
        "classes": task.samples.classes,
        "batch_size": n if batch == "all" else min(batch, n),
        "decay_at": " ".join(map(str, task.settings.decay_at)) or "none",
        "image": " ".join(map(str, task.image or ["none"])),
    }
    columns = tables.get("training").schema.names
    of_curves = {key: value for key, value in labels.items() if key in columns}
    of_kernels = labels | {"n_train": n, "n": ensemble.block_size}
    rows: Rows = []
    along: Rows = []
    for number, ((seed, relative), rate) in enumerate(rates.items()):
        metrics = {name: curve[:, number].tolist() for name, curve in ensemble.metrics.items()}
        network: Any = {"seed": seed, "relative_rate": relative, "rate": rate}
        network |= {"steps_per_epoch": ensemble.steps_per_epoch}
        network |= {"diverged": int(ensemble.diverged[number])}
        curve = {name: metrics[name] for name in ensemble.METRICS}
        rows += curve_rows(of_curves, **network, metrics=curve, epochs=ensemble.course.evaluated)
        along += along_rows(of_kernels, **network, metrics=metrics, epochs=ensemble.measured)
    return rows, along

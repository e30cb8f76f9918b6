"""The networks of a training: at initialisation, with their kernels, and then in its tables."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.networks.mlp import MLP, init_mlp, is_linear, linear_factor
from ntk_conditioning.networks.modules import Network, freeze_statistics, make_network
from ntk_conditioning.networks.user_models import UserModel, make_user_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra import condition_numbers
from ntk_conditioning.training.curves import curve_rows
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.losses import Loss, make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import NetworkSpec, Split, Training
from ntk_workflow.cli import log
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.settings import Image, Rates, TrainingSettings

Rows = list[dict[str, Any]]

#: Samples of a kernel at initialisation: enough for the largest eigenvalue, which grows like them.
MOST_SAMPLES = 1024


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """A network, built in or the user's ``own``, and how and on what an experiment trains it.

    Its ``names`` are those of `POINT_KEYS`.
    """

    names: Mapping[str, Any]
    own: UserModel | None
    settings: TrainingSettings
    samples: LabelledSamples

    @property
    def hidden(self) -> dict[str, Any]:
        """Hidden layers, their width and their activation, and the shape of images."""
        activation = activations.get(self.names["activation"])
        size = {"depth": self.names["depth"], "width": self.settings.width}
        return size | {"activation": activation, "image": self.settings.image}

    @property
    def size(self) -> dict[str, Any]:
        """What networks are made of."""
        outputs = self.samples.classes if self.settings.outputs == "classes" else 1
        return self.hidden | {"d": self.samples.shape[1], "outputs": outputs}

    @property
    def image(self) -> Image | None:
        """The shape of samples that are images to the network, or to what is done before."""
        images = takes_images(self.names["model"]) or self.settings.augmentation != "none"
        return self.settings.image if images else None

    def make(self, rng: np.random.Generator, *, dtype: torch.dtype = torch.float32) -> Network:
        return new_network(self.names["model"], self.own, rng, **self.size, dtype=dtype)

    def loss(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Loss:
        kind: Any = {"outputs": self.settings.outputs, "classes": self.samples.classes}
        return make_loss(self.settings.loss, **kind, dtype=dtype, device=device)

    def part(self, data: PreparedSamples, dtype: torch.dtype, device: Any = "cpu") -> Split:
        """Return samples as the networks take them."""
        x = as_seen(data.x, self.image).to(dtype=dtype)
        return Split(x.to(device), torch.from_numpy(data.y).to(device))


def require_batches(task: TrainingTask) -> None:
    """Raise `UserError` if a step had a single sample, in which batch norms find no variance."""
    n, size = task.samples.shape[0], task.settings.batch_size
    last = n if size == "all" else n % size or size
    layers = task.make(generator(0, "init")).modules() if last == 1 else ()
    if any(isinstance(layer, torch.nn.BatchNorm1d) for layer in layers):
        raise UserError(f"batch_size {size} leaves one of {n} samples: batch norms need two")


def new_network(name: str, own: UserModel | None, rng: np.random.Generator, **size: Any) -> Network:
    """Return a network of torch's modules, built in or the user's."""
    return make_user_network(own, rng, **size) if own else make_network(name, rng, **size)


def takes_images(name: str) -> bool:
    """Return whether a network takes images where samples are such."""
    return kind_of(name).needs_images or kind_of(name).family == "own"


def as_seen(x: NDArray[np.float64], image: Image | None) -> Tensor:
    """Return samples (n, d) or, if they are images, (n, colours, height, width)."""
    seen = torch.from_numpy(x)
    if image is None:
        return seen
    if math.prod(image) != x.shape[1]:
        raise UserError(f"image {list(image)} is not the {x.shape[1]} features of a sample")
    return seen.reshape(len(x), *image).movedim(-1, 1).contiguous()


def initial_network(
    name: str,
    x: NDArray[np.float64],
    *,
    seed: int,
    image: Image | None,
    own: UserModel | None = None,
    **size: Any,
) -> tuple[MLP | Network, Tensor]:
    """Return a network with one output at initialisation, and samples (n, d) as it takes them.

    Batch norms have the statistics of these samples, see `freeze_statistics`.
    """
    rng = generator(seed, "init")
    size |= {"d": x.shape[1], "dtype": torch.float64}
    if not kind_of(name).by_modules:
        return init_mlp(**size, generator=rng), torch.from_numpy(x)
    network = new_network(name, own, rng, **size, image=image, outputs=1)
    seen = as_seen(x, image if takes_images(name) else None)
    freeze_statistics(network, seen)
    return network, seen


def initial_kernel_rows(task: TrainingTask) -> Rows:
    """Return the rows of `training_kernels`, of every seed whose critical rate counts, in float64.

    Of networks with more outputs the kernel is that of the network with one, whose gradients have
    the factors of its learning rates.
    """
    rows = Rows()
    for seed in task.settings.critical_seeds or task.settings.seeds:
        x = task.samples.train[seed].x
        block = x[generator(seed, "blocks").permutation(len(x))[:MOST_SAMPLES]]
        if not takes_images(task.names["model"]):  # augmentation puts colours first
            block = as_seen(block, task.image).flatten(1).numpy()
        network, seen = initial_network(
            task.names["model"], block, seed=seed, own=task.own, **task.hidden
        )
        if isinstance(network, MLP) and is_linear(network):
            gradients = linear_factor(network, seen).numpy()
            spectrum = condition_numbers.conditioning_from_factor(gradients)
        else:
            k = ntk(network, seen) if isinstance(network, MLP) else module_kernel(network, seen)
            spectrum = condition_numbers.conditioning(k.numpy())
        critical = 2 * len(block) / spectrum.lambda_max
        log.info("seed %d: critical learning rate %.4g", seed, critical)
        rows.append(
            {**task.names, "seed": seed, "width": task.settings.width, "n": len(block)}
            | {"n_train": len(x), "lambda_max": spectrum.lambda_max, "kappa": spectrum.kappa}
            | {"lambda_min": spectrum.lambda_min if spectrum.kappa else None}
            | {"critical_learning_rate": critical}
        )
    return rows


def make_ensemble(task: TrainingTask, rates: Rates, device: torch.device) -> Training:
    """Return the networks of all ``rates`` at initialisation, with their samples on the device.

    On a GPU the products of all networks of mlp are computed together, see `Ensemble`.
    """
    settings, samples, dtype = task.settings, task.samples, getattr(torch, task.settings.dtype)
    members = [NetworkSpec(seed, rate) for (seed, _), rate in rates.items()]
    every = {id(data): data for data in (*samples.train.values(), *samples.test.values())}
    parts = {key: task.part(data, dtype, device) for key, data in every.items()}  # seeds share them
    train = {seed: parts[id(samples.train[seed])] for seed in settings.seeds}
    test = {seed: parts[id(samples.test[seed])] for seed in settings.seeds if samples.test} or None
    given = (partial(task.make, dtype=dtype), task.loss(dtype, device), members, train, test)
    options: dict[str, Any] = {"descent": settings, "along": settings.kernels_along}
    if kind_of(task.names["model"]).by_modules:
        ensemble = Training(*given, **options)
    else:
        ensemble = Ensemble(*given, **options, together=device.type == "cuda")
    sizes = (len(members), settings.width, *samples.shape)
    words = "device %s, %s, %d networks of width %d, %d samples of %d features"
    log.info(words, device, settings.dtype, *sizes)
    return ensemble


def training_rows(task: TrainingTask, rates: Rates, ensemble: Training) -> tuple[Rows, Rows]:
    """Return the rows of the tables of curves and of kernels along training."""
    settings, samples, (n, d) = task.settings, task.samples, task.samples.shape
    labels = {**task.names, **asdict(settings)} | {"n": n, "d": d, "classes": samples.classes}
    labels |= {"n_test": len(samples.test[settings.seeds[0]].x) if samples.test else 0}
    labels |= {"batch_size": n if settings.batch_size == "all" else min(settings.batch_size, n)}
    labels |= {"decay_at": " ".join(map(str, settings.decay_at)) or "none"}
    labels |= {"image": " ".join(map(str, task.image or ["none"]))}
    of_curves = tables.get("training").schema.names
    of_kernels = tables.get("kernels_along_training").schema.names
    rows, along = Rows(), Rows()
    for number, ((seed, relative), rate) in enumerate(rates.items()):
        labels |= {"seed": seed, "relative_rate": relative, "learning_rate": rate}
        metrics = {name: curve[:, number].tolist() for name, curve in ensemble.metrics.items()}
        network: Any = {"metrics": metrics, "diverged": int(ensemble.diverged[number])}
        network |= {"steps_per_epoch": ensemble.steps_per_epoch}
        curve = curve_rows(labels, **network, epochs=ensemble.descent.evaluated)
        rows += [{key: row[key] for key in of_curves} for row in curve]
        block = labels | {"n_train": n, "n": ensemble.block_size}
        measured = curve_rows(block, **network, epochs=ensemble.measured)
        along += [{key: row[key] for key in of_kernels} for row in measured if not row["diverged"]]
    return rows, along

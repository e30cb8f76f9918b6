"""The work of a run's jobs, from its config: what they ask a scheduler for, and what a run costs.

Pure functions; `jobs.smk` gives them the config and the shapes of the datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntk_conditioning import memory
from ntk_conditioning.networks import architectures
from ntk_conditioning.training import learning_rates
from ntk_workflow import resources
from ntk_workflow.plan.cells import EMPIRICAL
from ntk_workflow.resources import Work

#: Samples and features of a dataset of which nothing is known before its files are read.
UNKNOWN = (50_000, 1000)

#: Outputs of a network where the number of classes is not known: as many as LibriSpeech's speakers.
CLASSES = 251

#: The longest time that a job asks for, in minutes: more than that few partitions grant. What takes
#: longer goes on from its checkpoint when it is tried again.
MOST_MINUTES = 24 * 60

Shape = tuple[int | None, int | None]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run's problems: of its config, and of datasets by ``shape``.

    ``setting`` and ``experiment_setting`` give a config value as it holds for one dataset, the
    latter for one model on it; ``image`` the shape of a dataset's images.
    """

    config: Mapping[str, Any]
    shape: Callable[[str], Shape]
    setting: Callable[[str, str], Any]
    experiment_setting: Callable[[str, str, str, str], Any]
    image: Callable[[str], tuple[int, int, int] | None]

    def samples(self, dataset: str) -> tuple[int, int]:
        """Return samples and features of a dataset's cells, as far as they are known."""
        n, d = self.shape(dataset)
        return n or UNKNOWN[0], d or UNKNOWN[1]

    def cells(
        self,
        kind: str,
        dataset: str,
        activation: str,
        depths: Sequence[int],
        seeds: int,
        *,
        kernel: str = EMPIRICAL,
    ) -> Work:
        """Return the work of a job of cells; ``kind`` is a rule such as compute_spectrum."""
        n, d = self.samples(dataset)
        size, blocks = self.setting("kernel_size", dataset), self.setting("blocks", dataset)
        size = n if size == "all" else size
        return resources.cells(
            kind,
            activation,
            n=n,
            d=d,
            depths=depths,
            seeds=seeds,
            width=self.config["width"],
            kernel_size=size,
            blocks=max(1, n // size) if blocks == "all" else blocks,
            full_below=self.config["full_spectrum_below"],
            dtype_bytes=np.dtype(self.config["dtype"]).itemsize,
            kernel=kernel,
        )

    def bounds(self, dataset: str) -> Work:
        """Return the work of comparing kernels with bounds on one dataset."""
        study, (n, d) = self.config["bounds_study"], self.samples(dataset)
        return resources.bounds(
            n=n if study["samples"] == "all" else study["samples"],
            d=d,
            depths=study["depths"],
            activations=len(study["activations"]),
        )

    def assembly(self, study: str, dataset: str, architecture: str) -> Work:
        """Return the work of a study of assemblies of neurons, all widths of one architecture."""
        values, described = self.config[f"{study}_study"], self.config["architectures"]
        n, d = self.samples(dataset)
        total = Work(0.0, 0.0)
        for width in values["widths"]:
            total += resources.assembly(
                study,
                [width if m == "m" else m for m in described[architecture]["hidden"]],
                dense=described[architecture].get("dense", False),
                n=values["samples"],
                d=d,
                loaded=n,
                seeds=len(values["seeds"]),
                steps=values["steps"],
                expansions=values.get("expansions", 0),
                radii=len(values.get("radii", ())),
                directions=values.get("directions", 0),
            )
        return total

    def training(
        self, experiment: str, dataset: str, model: str, activation: str, depth: int
    ) -> Work:
        """Return the work of training all networks of one depth."""

        def value(key: str) -> Any:
            return self.experiment_setting(key, experiment, dataset, model)

        rates = value("learning_rates")
        if rates == "auto":
            rates = learning_rates.AUTO[value("loss")]
        elif isinstance(rates, Mapping):
            rates = rates["critical"]
        n, loaded, d, seeds = self._trained_on(experiment, dataset, model)
        batch = value("batch_size")
        sizes = {
            "n": n,
            "d": d,
            "width": value("width"),
            "depth": depth,
            "classes": 1 if value("outputs") == "scalar" else CLASSES,
            "networks": seeds * len(rates),
            "epochs": value("epochs"),
            "batch": n if batch == "all" else batch,
            "evaluate_every": value("evaluate_every"),
            "n_test": loaded // 5,
            "loaded": loaded,
            "draws": seeds if n < loaded else 0,
            "dtype_bytes": np.dtype(value("dtype")).itemsize,
        }
        if not architectures.MODELS[model].by_modules:
            return resources.training(**sizes)
        return resources.module_training(model, **sizes, seeds=seeds, image=self.image(dataset))

    def training_kernel(
        self, experiment: str, dataset: str, model: str, activation: str, depth: int
    ) -> Work:
        """Return the work of the NTK at the initialisation of those networks."""
        n, loaded, d, seeds = self._trained_on(experiment, dataset, model)
        return resources.training_kernel(
            n=n,
            d=d,
            width=self.experiment_setting("width", experiment, dataset, model),
            depth=depth,
            seeds=seeds,
            loaded=loaded,
            linear=activation == "linear",
        )

    def _trained_on(self, experiment: str, dataset: str, model: str) -> tuple[int, int, int, int]:
        """Return samples, those that are loaded for them, features and seeds of a training."""
        loaded, d = self.samples(dataset)
        drawn = self.experiment_setting("samples", experiment, dataset, model)
        seeds = len(self.experiment_setting("seeds", experiment, dataset, model))
        return loaded if drawn == "all" else drawn, loaded, d, seeds


def memory_mb(work: Work, attempt: int) -> int:
    """Return the memory to ask for, Snakemake's own with it, in 10^6 bytes; it grows by attempt."""
    return resources.memory_mb(work, attempt) + memory.AROUND // 10**6


def minutes(kind: str, work: Work, attempt: int, *, gpu: bool = False, threads: int = 1) -> int:
    """Return the time to ask for; more with every attempt, up to `MOST_MINUTES`."""
    asked = resources.minutes(resources.Model(), kind, work, attempt, gpu=gpu, threads=threads)
    return min(MOST_MINUTES, asked)

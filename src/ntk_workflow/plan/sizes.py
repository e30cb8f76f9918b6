"""What a run's jobs need, from its config.

Pure functions; `jobs.smk` gives them the config and the shapes of the datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntk_conditioning.training import learning_rates
from ntk_workflow import resources
from ntk_workflow.plan.cells import EMPIRICAL
from ntk_workflow.resources import ResourceEstimate

#: Samples and features of a dataset of which nothing is known before its files are read.
UNKNOWN = (50_000, 1000)

#: Outputs of a network where the number of classes is not known: as many as LibriSpeech's speakers.
CLASSES = 251

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
        threads: int = 1,
    ) -> ResourceEstimate:
        """Return the estimate of a job of cells; ``kind`` is a rule such as compute_spectrum."""
        n, d = self.samples(dataset)
        grid: dict[str, Any] = {"n": n, "d": d, "depths": depths, "seeds": seeds}
        width = self.config["width"]
        size, blocks = self.setting("kernel_size", dataset), self.setting("blocks", dataset)
        size = n if size == "all" else size
        block = {
            "kernel_size": size,
            "blocks": max(1, n // size) if blocks == "all" else blocks,
            "full_below": self.config["full_spectrum_below"],
            "threads": threads,
        }
        match kind:
            case "compute_spectrum":
                itemsize = np.dtype(self.config["dtype"]).itemsize
                finite = {"width": width, "dtype_bytes": itemsize, "kernel": kernel}
                return resources.spectrum(activation, **grid, **block, **finite)
            case "compute_infinite_spectrum":
                return resources.infinite_spectrum(activation, **grid, **block)
            case "compute_min_angle":
                return resources.min_angle(activation, **grid, width=width)
            case "compute_infinite_min_angle":
                return resources.infinite_min_angle(activation, **grid)
        raise ValueError(f"{kind} computes no cells")

    def bounds(self, dataset: str) -> ResourceEstimate:
        """Return the estimate of comparing kernels with bounds on one dataset."""
        study, (n, d) = self.config["bounds_study"], self.samples(dataset)
        return resources.bounds(
            n=n if study["samples"] == "all" else study["samples"],
            d=d,
            depths=study["depths"],
            activations=len(study["activations"]),
        )

    def assembly(self, study: str, dataset: str, architecture: str) -> ResourceEstimate:
        """Return the estimate of a study's job: all widths of one architecture."""
        values, network = self.config[f"{study}_study"], self.config["architectures"][architecture]
        n, d = self.samples(dataset)
        return resources.feedforward_study(
            study,
            [[w if m == "m" else m for m in network["hidden"]] for w in values["widths"]],
            dense=network.get("dense", False),
            n=values["samples"],
            d=d,
            loaded=n,
            seeds=len(values["seeds"]),
            steps=values["steps"],
            expansions=values.get("expansions", 0),
            radii=len(values.get("radii", ())),
            directions=values.get("directions", 0),
        )

    def training(
        self, experiment: str, dataset: str, model: str, activation: str, depth: int
    ) -> ResourceEstimate:
        """Return the estimate of training all networks of one depth."""

        def value(key: str) -> Any:
            return self.experiment_setting(key, experiment, dataset, model)

        rates = value("learning_rates")
        if rates == "auto":
            rates = learning_rates.AUTO[value("loss")]
        elif isinstance(rates, Mapping):
            rates = rates["critical"]
        n, loaded, d, seeds = self._trained_on(experiment, dataset, model)
        batch = value("batch_size")
        return resources.training(
            model,
            n=n,
            loaded=loaded,
            d=d,
            width=value("width"),
            depth=depth,
            classes=1 if value("outputs") == "scalar" else CLASSES,
            seeds=seeds,
            rates=len(rates),
            epochs=value("epochs"),
            batch=n if batch == "all" else batch,
            evaluate_every=value("evaluate_every"),
            n_test=loaded // 5,
            dtype_bytes=np.dtype(value("dtype")).itemsize,
            image=self.image(dataset),
        )

    def training_kernel(
        self, experiment: str, dataset: str, model: str, activation: str, depth: int
    ) -> ResourceEstimate:
        """Return the estimate of the NTK at the initialisation of those networks."""
        n, loaded, d, seeds = self._trained_on(experiment, dataset, model)
        width = self.experiment_setting("width", experiment, dataset, model)
        sizes = {"n": n, "loaded": loaded, "d": d, "width": width, "depth": depth, "seeds": seeds}
        return resources.training_kernel(activation, **sizes)

    def _trained_on(self, experiment: str, dataset: str, model: str) -> tuple[int, int, int, int]:
        """Return samples, those that are loaded for them, features and seeds of a training."""
        loaded, d = self.samples(dataset)
        drawn = self.experiment_setting("samples", experiment, dataset, model)
        seeds = len(self.experiment_setting("seeds", experiment, dataset, model))
        return loaded if drawn == "all" else drawn, loaded, d, seeds

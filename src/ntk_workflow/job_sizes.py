"""The size of each job of a run: what its rule asks a scheduler for, and what it would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ntk_conditioning.kernels import EMPIRICAL
from ntk_workflow import catalogue, resources
from ntk_workflow.plan import JobWildcards, Plan
from ntk_workflow.resources import ResourceEstimate

#: Samples and features of a dataset of which nothing is known before its files are read.
UNKNOWN = (50_000, 1000)

#: Outputs of a network where the number of classes is not known: as many as LibriSpeech's speakers.
CLASSES = 251

Asked = Callable[..., int]


@dataclass(frozen=True, eq=False)
class JobSizes:
    """What the jobs of a plan ask for: functions for the ``resources`` of the rules.

    ``gives_gpu`` tells whether a profile gives the jobs of a rule a GPU.
    """

    plan: Plan
    gives_gpu: Callable[[str], bool]

    def mem_mb(self, rule: str) -> Asked:
        """Return a resource: the memory of a rule's jobs, in MB, more with every attempt."""
        return lambda wildcards, attempt: resources.mem_mb(self.of(rule, wildcards), attempt)

    def runtime(self, rule: str) -> Asked:
        """Return a resource: the time limit of a rule's jobs, in minutes."""
        gpu = self.gives_gpu(rule)
        return lambda wildcards, attempt: resources.runtime(
            rule, self.of(rule, wildcards), attempt, gpu=gpu
        )

    def core_seconds(self, rule: str) -> Asked:
        """Return a resource: what a rule's jobs take, in seconds of a core or of a GPU."""
        gpu = self.gives_gpu(rule)
        return lambda wildcards: resources.core_seconds(rule, self.of(rule, wildcards), gpu=gpu)

    def of(self, rule: str, w: Any) -> ResourceEstimate:
        """Return the operations and bytes of a job."""
        return self._of(rule, tuple(sorted(dict(w).items())))

    @cache  # noqa: B019 one for each start of Snakemake
    def _of(self, rule: str, wildcards: tuple[tuple[str, str], ...]) -> ResourceEstimate:
        w = JobWildcards(**dict(wildcards))
        n, d = self._samples(w.dataset)
        match rule:
            case "prepare_dataset":
                return resources.preparation(n=n, d=d)
            case "describe_dataset":
                return resources.description(n=self._drawn(w.dataset), d=d)
            case "compute_bounds":
                study = self.plan.config["bounds_study"]
                return resources.bounds(
                    n=n if study["samples"] == "all" else study["samples"],
                    d=d,
                    depths=study["depths"],
                    activations=len(study["activations"]),
                )
            case "measure_orthogonality" | "measure_linearity":
                return self._width_study(rule.removeprefix("measure_"), w, loaded=n, d=d)
            case "train_network" | "compute_training_kernel":
                return self._training(rule, w, loaded=n, d=d)
            case "compute_activation_study":
                study = self.plan.config["activation_study"]
                size, blocks = self._blocks(n, study["kernel_size"], study["blocks"])
                return resources.infinite_spectrum(
                    w.activation,
                    n=n,
                    d=d,
                    depths=study["depths"],
                    seeds=len(study["seeds"]),
                    kernel_size=size,
                    blocks=blocks,
                    full_below=self.plan.config["full_spectrum_below"],
                )
        return self._row(rule, w, d=d)

    def _row(self, rule: str, w: JobWildcards, *, d: int) -> ResourceEstimate:
        """Return the size of a row of the main grid."""
        config, n = self.plan.config, self._drawn(w.dataset)
        depths, seeds = self.plan.depths(w), len(config["seeds"])
        if rule == "compute_min_angle":
            return resources.min_angle(
                w.activation, n=n, d=d, depths=depths, seeds=seeds, width=config["width"]
            )
        if rule == "compute_infinite_min_angle":
            seeds = len(self.plan.drawing_seeds(w))
            return resources.infinite_min_angle(w.activation, n=n, d=d, depths=depths, seeds=seeds)
        given = (self.plan.setting(key, w.dataset) for key in ("kernel_size", "blocks"))
        size, blocks = self._blocks(n, *given)
        common: dict[str, Any] = {"n": n, "d": d, "depths": depths, "seeds": seeds}
        common |= {"kernel_size": size, "blocks": blocks}
        common |= {"full_below": config["full_spectrum_below"]}
        if rule == "compute_infinite_spectrum":
            return resources.infinite_spectrum(w.activation, **common)
        return resources.spectrum(
            w.activation,
            **common,
            width=config["width"],
            dtype_bytes=np.dtype(config["dtype"]).itemsize,
            kernel=getattr(w, "kernel", EMPIRICAL),
        )

    def _width_study(self, study: str, w: JobWildcards, *, loaded: int, d: int) -> ResourceEstimate:
        values = self.plan.config[f"{study}_study"]
        architecture = self.plan.config["architectures"][w.architecture]
        return resources.feedforward_study(
            study,
            [[m if h == "m" else h for h in architecture["hidden"]] for m in values["widths"]],
            dense=architecture.get("dense", False),
            n=values["samples"],
            d=d,
            loaded=loaded,
            seeds=len(values["seeds"]),
            steps=values["steps"],
            expansions=values.get("expansions", 0),
            radii=len(values.get("radii", ())),
            directions=values.get("directions", 0),
        )

    def _training(self, rule: str, w: JobWildcards, *, loaded: int, d: int) -> ResourceEstimate:
        settings, depth = self.plan.training_settings(w), int(w.depth)
        n = loaded if settings.samples == "all" else settings.samples
        seeds = len(settings.seeds)
        if rule == "compute_training_kernel":
            sizes = {"width": settings.width, "depth": depth, "seeds": seeds}
            return resources.training_kernel(w.activation, n=n, loaded=loaded, d=d, **sizes)
        return resources.training(
            w.model,
            n=n,
            loaded=loaded,
            d=d,
            width=settings.width,
            depth=depth,
            classes=1 if settings.outputs == "scalar" else CLASSES,
            seeds=seeds,
            rates=len(settings.rates),
            epochs=settings.epochs,
            batch=n if settings.batch_size == "all" else settings.batch_size,
            evaluate_every=settings.evaluate_every,
            n_test=loaded // 5,
            dtype_bytes=np.dtype(settings.dtype).itemsize,
            image=catalogue.known_image(self.plan.catalogue[w.dataset]),
        )

    def _samples(self, dataset: str) -> tuple[int, int]:
        """Return all samples and features of a dataset, as far as they are known."""
        n, d = self.plan.shape(dataset)
        return n or UNKNOWN[0], d or UNKNOWN[1]

    def _drawn(self, dataset: str) -> int:
        """Return the samples of a dataset's draw in the main grid."""
        drawn = self.plan.setting("samples", dataset)
        return self._samples(dataset)[0] if drawn == "all" else int(drawn)

    @staticmethod
    def _blocks(n: int, size: Any, blocks: Any) -> Sequence[int]:
        size = n if size == "all" else size
        return size, max(1, n // size) if blocks == "all" else blocks

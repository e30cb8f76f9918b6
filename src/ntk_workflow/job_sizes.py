"""The size of each job of a run: what its rule asks a scheduler for, and what it would take."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import Sizes, kind_of, sizes
from ntk_workflow import resources, study_resources, training_resources
from ntk_workflow.catalogue import classes_of, known_image
from ntk_workflow.plan import Plan
from ntk_workflow.resources import ResourceEstimate
from ntk_workflow.trainings.settings import TrainingSettings

#: Samples and features of a dataset of which nothing is known before its files are read.
UNKNOWN = (50_000, 1000)


@dataclass(frozen=True, eq=False)
class JobSizes:
    """What the jobs of a plan ask for.

    ``gives_gpu`` tells whether a profile gives the jobs of a rule a GPU.
    """

    plan: Plan
    gives_gpu: Callable[[str], bool]

    def __call__(self, rule: str) -> dict[str, Callable[..., int]]:
        """Return the resources of a rule: MB, minutes, and seconds of a core or of a GPU."""
        gpu = self.gives_gpu(rule)

        def mem_mb(wildcards: Any, attempt: int) -> int:
            return resources.mem_mb(self.of(rule, wildcards), attempt)

        def runtime(wildcards: Any, attempt: int) -> int:
            kind = self.kind(rule, wildcards)
            return resources.runtime(kind, self.of(rule, wildcards), attempt, gpu=gpu)

        def core_seconds(wildcards: Any) -> int:
            kind = self.kind(rule, wildcards)
            return resources.core_seconds(kind, self.of(rule, wildcards), gpu=gpu)

        return {"mem_mb": mem_mb, "runtime": runtime, "core_seconds": core_seconds}

    def kind(self, rule: str, w: Any) -> str:
        """Return what the rates of a job are known by: its rule, or what torch's modules train."""
        if rule != "train_network":
            return rule
        if not (kind := kind_of(w.model)).by_modules:
            return rule
        return "train_convolutions" if kind.needs_images else "train_modules"

    def of(self, rule: str, w: Any) -> ResourceEstimate:
        """Return the operations and bytes of a job."""
        return self._of(rule, tuple(sorted(dict(w).items())))

    @cache  # noqa: B019 one for each start of Snakemake
    def _of(self, rule: str, wildcards: tuple[tuple[str, str], ...]) -> ResourceEstimate:
        w, config = SimpleNamespace(**dict(wildcards)), self.plan.config
        if rule == "measure_phase":
            return study_resources.phase(self.plan.phase_part(w.part))
        n, d = self.plan.shape(w.dataset)
        loaded, d = n or UNKNOWN[0], d or UNKNOWN[1]
        match rule:
            case "advise_dataset":
                return study_resources.advice(loaded=loaded, d=d)
            case "prepare_dataset":
                return resources.preparation(n=loaded, d=d)
            case "compute_bounds":
                return study_resources.bounds(config["bounds_study"], loaded=loaded, d=d)
            case "measure_phase_of_data":
                return study_resources.phase_of_data(config["phase_study"], loaded=loaded, d=d)
            case "measure_finite_width":
                return study_resources.finite_width(
                    config["finite_width_study"], loaded=loaded, d=d
                )
            case "measure_repairs":
                return study_resources.repairs(config["repairs_study"], loaded=loaded, d=d)
            case "measure_architectures":
                study, entry = config["architectures_study"], self.plan.catalogue[w.dataset]
                image = known_image(entry)
                return study_resources.architectures_study(study, image=image, loaded=loaded, d=d)
            case "measure_orthogonality" | "measure_linearity":
                name, networks = rule.removeprefix("measure_"), config["architectures"]
                study, network = config[f"{name}_study"], networks[w.architecture]
                return study_resources.feedforward_study(name, study, network, loaded=loaded, d=d)
            case "train_network":
                return self._training(w, loaded, d)
            case "predict_training":
                settings, depths, of = self._depths(w, loaded, d)
                classes = classes_of(self.plan.catalogue[w.dataset])
                return training_resources.prediction(
                    w.model, settings, depths, classes=classes, **of
                )
            case "compute_activation_study":
                study = {**config, **config["activation_study"]}
                row = resources.Row.from_config(study, n=loaded, d=d)
                rows = (resources.infinite_spectrum(name, row) for name in study["activations"])
                return ResourceEstimate.of_all(rows)
        grid = {**config, **config["overrides"].get(w.dataset, {})}
        n = loaded if grid["samples"] == "all" else int(grid["samples"])
        scaling = self.plan.catalogue[w.dataset]["scaling"]
        row = resources.Row.from_config(grid, n=n, d=d)
        row = replace(row, one_norm=scaling == "unit_norm")
        match rule:
            case "describe_dataset":
                return resources.description(n=n, d=d)
            case "compute_spectrum":
                return resources.spectrum(w.activation, row, w.kernel)
            case "compute_infinite_spectrum":
                return resources.infinite_spectrum(w.activation, row)
            case "compute_min_angle":
                return resources.min_angle(w.activation, row)
        seeds = len(self.plan.drawing_seeds(w.dataset))
        return resources.infinite_min_angle(w.activation, replace(row, seeds=seeds))

    def _training(self, network: Any, loaded: int, d: int) -> ResourceEstimate:
        settings, depth = self.plan.network_settings(network), int(network.depth)
        model, own = network.model, network.model in self.plan.models
        size = self._sizes(network, settings, d, depth) if own else None
        of: Any = {"loaded": loaded, "d": d, "size": size}
        classes = classes_of(self.plan.catalogue[network.dataset])
        parts = [training_resources.training(model, settings, depth, classes=classes, **of)]
        if settings.has_initial_kernel(model):
            kernel = training_resources.initial_kernel
            parts.append(kernel(model, network.activation, settings, depth, **of))
        return ResourceEstimate.of_all(parts)

    def _depths(
        self, w: Any, loaded: int, d: int
    ) -> tuple[TrainingSettings, list[int], dict[str, Any]]:
        """Return settings and depths of an experiment's networks, and what else is known of them.

        Those are their sizes if they are of torch's modules.
        """
        settings, depths = self.plan.training_settings(w), self.plan.training_depths(w)
        of: dict[str, Any] = {"loaded": loaded, "d": d}
        if kind_of(w.model).by_modules:
            of["sizes"] = [self._sizes(w, settings, d, depth) for depth in depths]
        return settings, depths, of

    def _sizes(self, w: Any, settings: TrainingSettings, d: int, depth: int) -> Sizes:
        """Return the sizes of a network of torch's modules, which may be the user's own."""
        outputs = 1 if settings.outputs == "scalar" else training_resources.CLASSES
        size = {"d": d, "depth": depth, "width": settings.width, "outputs": outputs}
        if w.model not in self.plan.models:
            return sizes(w.model, **size, image=settings.image)
        from ntk_conditioning.networks import own  # torch takes seconds

        if self.plan.shape(w.dataset)[1] is None:  # it could not be tried
            return sizes("fc", **size, image=None)
        image, activation = settings.image, activations.get(w.activation)
        return own.measure_sizes(
            self.plan.models[w.model], **size, image=image, activation=activation
        )

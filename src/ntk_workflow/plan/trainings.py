"""The trainings of a run: one job for each network of an experiment."""

from dataclasses import replace
from itertools import product
from typing import Any

from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow import catalogue
from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options
from ntk_workflow.settings import from_mapping, to_options
from ntk_workflow.trainings.settings import KernelSettings, TrainingSettings


class Trainings(Datasets):
    """What the rules of trainings need."""

    def training_settings(self, w: Any) -> TrainingSettings:
        """Return the settings of an experiment as they hold for one model on one dataset."""
        values = dict(self.experiments[w.experiment])
        overrides = values.pop("overrides")
        for name in (w.dataset, w.model):  # where both have an exception, the model's is taken
            values |= overrides.get(name, {})
        entry, by_modules = self.catalogue[w.dataset], MODELS[w.model].by_modules
        image = catalogue.known_image(entry) if by_modules else None
        return TrainingSettings.from_config(values, image=image)

    def training_options(self, w: Any) -> list[str]:
        """Return the same as options, with the table of critical rates and the test samples."""
        settings = self.training_settings(w)
        kernel = [f"--kernel={name}" for name in self.training_kernel(w)]
        test = [f"--test={name}" for name in self.test_samples(w)]
        if test:
            settings = replace(settings, test_share=0.0)
        return [*to_options(settings), *kernel, *test]

    def kernel_options(self, w: Any) -> list[str]:
        """Return the options of the NTK at a training's initialisation."""
        return to_options(from_mapping(KernelSettings, vars(self.training_settings(w))))

    def training_kernel(self, w: Any) -> list[str]:
        """Return the table of critical rates, if a training needs it."""
        place = (w.experiment, w.dataset, w.model, w.activation, f"depth-{w.depth}.parquet")
        needed = self.training_settings(w).relative_rates
        return [self.path("training_kernels", *place)] if needed else []

    def test_samples(self, w: Any, extension: str = "npz") -> list[str]:
        """Return the test samples of a training, if the dataset has any."""
        name = self.path("datasets", w.dataset, f"test.{extension}")
        return [name] if catalogue.files_of(self.catalogue[w.dataset], "test") else []

    def training_datasheets(self, w: Any) -> list[str]:
        """Return the datasheets of a training's samples, which tell when they change."""
        return [self.path("datasets", w.dataset, "all.json"), *self.test_samples(w, "json")]

    def trainings(self, w: Any) -> list[str]:
        """Return the curves, or the kernels, of an experiment's networks: a file for each depth."""
        return self.training_files(w.table, w.experiment)

    def training_files(self, table: str, experiment: str) -> list[str]:
        """Return the same by the table's name."""
        self.require(f"training.{experiment}")
        values = self.experiments[experiment]
        kernels = table == "training_kernels"
        models = [name for name in values["models"] if not (kernels and MODELS[name].by_modules)]
        return [
            self.path(table, experiment, dataset, model, sigma, f"depth-{depth}.parquet")
            for dataset in values["datasets"]
            for model, sigma in product(models, values["activations"])
            for depth in values["overrides"].get(dataset, {}).get("depths", values["depths"])
        ]

    def criterion(self, w: Any) -> list[str]:
        """Return what makes a learning rate the best as options."""
        experiment = self.experiments[w.experiment]
        return options({key: experiment[key] for key in ("criterion", "loss_level")})

    def experiment_tables(self, w: Any) -> list[str]:
        """Return the tables of all experiments, by the table's name."""
        return [self.path("tables", w.table, f"{name}.parquet") for name in self.experiments]

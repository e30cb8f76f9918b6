"""The trainings of a run: a job for each network of an experiment, or for each of its seeds."""

from dataclasses import asdict, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks.architectures import kind_of
from ntk_workflow import catalogue
from ntk_workflow.figures.parameters import has_table
from ntk_workflow.named_values import to_words
from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options
from ntk_workflow.trainings.settings import TrainingSettings


class Trainings(Datasets):
    """What the rules of trainings need.

    The wildcard ``per_seed`` of their files is empty, or ``/seed-1`` where a job trains one seed.
    """

    def training_settings(self, w: Any) -> TrainingSettings:
        """Return the settings of an experiment as they hold for one model on one dataset."""
        values = dict(self.experiments[w.experiment])
        overrides = values.pop("overrides")
        for name in (w.dataset, w.model):  # where both have an exception, the model's is taken
            values |= overrides.get(name, {})
        entry, by_modules = self.catalogue[w.dataset], kind_of(w.model).by_modules
        image = catalogue.known_image(entry) if by_modules else None
        settings = TrainingSettings.from_config(values, image=image)
        return replace(settings, test_share=0.0) if self.test_samples(w) else settings

    def network_settings(self, w: Any) -> TrainingSettings:
        """Return the settings of a job, which may train a single seed."""
        settings = self.training_settings(w)
        if not w.per_seed:
            return settings
        critical = settings.seeds if settings.rate_unit == "smallest_critical" else ()
        seed = int(w.per_seed.removeprefix("/seed-"))
        return replace(settings, seeds=(seed,), critical_seeds=critical)

    def network_setting_options(self, w: Any) -> list[str]:
        """Return the same as options."""
        return to_words(asdict(self.network_settings(w)))

    def prediction_options(self, w: Any) -> list[str]:
        """Return the settings of trainings that are predicted as options."""
        return to_words(asdict(replace(self.training_settings(w), kernels_along=None)))

    def training_checkpoints(self, w: Any) -> str:
        """Return the folder of a job's checkpoints."""
        network = (w.experiment, w.dataset, w.model, w.activation, f"depth-{w.depth}{w.per_seed}")
        return self.placed(self.path("checkpoints/training", *network))

    def experiments_along(self, measured: bool) -> str:
        """Return a pattern of the experiments whose kernels are measured along training, or not."""
        experiments = self.experiments.items()
        names = [name for name, of in experiments if bool(of["kernels_along"]) == measured]
        return "|".join(names) or "(?!)"

    def training_depths(self, w: Any) -> list[int]:
        """Return the depths of an experiment's networks on one dataset."""
        values = self.experiments[w.experiment]
        return list(values["overrides"].get(w.dataset, {}).get("depths", values["depths"]))

    def test_samples(self, w: Any, extension: str = "npz") -> list[str]:
        """Return the test samples of a training, if the dataset has any."""
        name = self.path("datasets", w.dataset, f"test.{extension}")
        return [name] if catalogue.files_of(self.catalogue[w.dataset], "test") else []

    def training_datasheets(self, w: Any) -> list[str]:
        """Return the datasheets of a training's samples, which tell when they change."""
        return [self.path("datasets", w.dataset, "all.json"), *self.test_samples(w, "json")]

    def trainings(self, w: Any) -> list[str]:
        """Return the curves, or the kernels, of an experiment's networks: a file of each job."""
        return self.training_files(w.table, w.experiment)

    def training_files(self, table: str, experiment: str) -> list[str]:
        """Return the same by the table's name."""
        self.require(f"training.{experiment}")
        values = self.experiments[experiment]
        if not has_table(table, values):
            return []
        seeds = [f"/seed-{seed}" for seed in values["seeds"]] if values["job_per_seed"] else [""]
        files = []
        axes = (values[key] for key in ("datasets", "models", "activations"))
        for dataset, *network in product(*axes):
            place = self.path(table, experiment, dataset, *network)
            depths = self.training_depths(SimpleNamespace(experiment=experiment, dataset=dataset))
            jobs = [f"/depth-{depth}{seed}" for depth in depths for seed in seeds]
            files += [f"{place}{job}.parquet" for job in ([""] if table == "predictions" else jobs)]
        return files

    def predicted_trainings(self, w: Any) -> list[str]:
        """Return the curves of all depths with which predictions are compared."""
        place = self.path("training", w.experiment, w.dataset, w.model, w.activation)
        files = self.training_files("training", w.experiment)
        return [file for file in files if file.startswith(f"{place}/")]

    def criterion(self, w: Any) -> list[str]:
        """Return what makes a learning rate the best as options."""
        experiment = self.experiments[w.experiment]
        return options({key: experiment[key] for key in ("criterion", "loss_level")})

    def experiment_tables(self, w: Any) -> list[str]:
        """Return the tables of all experiments that have one, by the table's name."""
        names = [name for name, values in self.experiments.items() if has_table(w.table, values)]
        return [self.path("tables", w.table, f"{name}.parquet") for name in names]

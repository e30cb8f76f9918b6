"""The trainings of a run: a job for each network of an experiment, or for each of its seeds."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks.architectures import kind_of
from ntk_workflow import catalogue
from ntk_workflow.figures.parameters import has_table
from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options
from ntk_workflow.settings import from_mapping, to_options, words
from ntk_workflow.trainings.settings import KernelSettings, TrainingSettings

#: The table of the kernels along training, which are files of the same jobs.
ALONG = "kernels_along_training"

#: What goes before the seed in the name of a job that trains one.
SEED = "/seed-"


class Trainings(Datasets):
    """What the rules of trainings need."""

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

    def job_settings(self, w: Any) -> TrainingSettings:
        """Return the same of one job, which may be that of a single seed."""
        settings = self.training_settings(w)
        if not w.of_seed:
            return settings
        return replace(settings, seeds=(int(w.of_seed.removeprefix(SEED)),))

    def training_options(self, w: Any) -> list[str]:
        """Return the same as options, with the table of critical rates and the test samples."""
        settings = self.job_settings(w)
        kernel = [f"--kernel={self.placed(name)}" for name in self.training_kernel(w)]
        test = [f"--test={self.placed(name)}" for name in self.test_samples(w)]
        along = [f"--kernels-output={self.placed(name)}" for name in self.kernels_along(w)]
        return [*to_options(settings), *kernel, *test, *along]

    def kernels_along(self, w: Any) -> list[str]:
        """Return the table of the kernels along a training, if they are measured."""
        job = f"depth-{w.depth}{w.of_seed}.parquet"
        row = (w.experiment, w.dataset, w.model, w.activation, job)
        return [self.path(ALONG, *row)] if self.experiments[w.experiment]["kernels_along"] else []

    def experiments_along(self, measured: bool) -> str:
        """Return a pattern of the experiments whose kernels are measured along training, or not."""
        names = [n for n, v in self.experiments.items() if bool(v["kernels_along"]) == measured]
        return "|".join(names) or "(?!)"

    def prediction_options(self, w: Any) -> list[str]:
        """Return the settings of trainings that are predicted as options."""
        return to_options(replace(self.training_settings(w), kernels_along=None))

    def predicted_trainings(self, w: Any) -> list[str]:
        """Return the curves of all depths with which predictions are compared."""
        row = self.path("training", w.experiment, w.dataset, w.model, w.activation)
        return [f"{row}/{job}.parquet" for job in self.training_jobs(w)]

    def training_jobs(self, w: Any) -> list[str]:
        """Return the names of the jobs that train an experiment's networks on one dataset."""
        values, depths = self.experiments[w.experiment], self.training_depths(w)
        seeds = [f"{SEED}{seed}" for seed in values["seeds"]] if values["job_per_seed"] else [""]
        return [f"depth-{depth}{seed}" for depth in depths for seed in seeds]

    def kernel_options(self, w: Any) -> list[str]:
        """Return the options of the NTK where trainings begin, with their depths."""
        settings = from_mapping(KernelSettings, vars(self.training_settings(w)))
        return [*to_options(settings), *words("depths", self.training_depths(w))]

    def training_depths(self, w: Any) -> list[int]:
        """Return the depths of an experiment's networks on one dataset."""
        values = self.experiments[w.experiment]
        return list(values["overrides"].get(w.dataset, {}).get("depths", values["depths"]))

    def training_kernel(self, w: Any) -> list[str]:
        """Return the table of critical rates, if a training needs it."""
        row = (w.experiment, w.dataset, w.model, f"{w.activation}.parquet")
        needed = self.training_settings(w).relative_rates
        return [self.path("training_kernels", *row)] if needed else []

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
        values, files = self.experiments[experiment], []
        for names in product(values["datasets"], values["models"], values["activations"]):
            row = self.path(table, experiment, *names)
            of = SimpleNamespace(experiment=experiment, dataset=names[0], model=names[1])
            if table == "training" or (table == ALONG and values["kernels_along"]):
                files += [f"{row}/{job}.parquet" for job in self.training_jobs(of)]
            elif table == ALONG:
                continue
            elif values["predict"] if table == "predictions" else self.has_kernel(of):
                files.append(f"{row}.parquet")
        return files

    def has_kernel(self, w: Any) -> bool:
        """Return whether the NTK where a network's training begins is a part of the run.

        That of torch's modules takes as long as a small training, and is made if it is needed.
        """
        return not kind_of(w.model).by_modules or bool(self.training_settings(w).relative_rates)

    def criterion(self, w: Any) -> list[str]:
        """Return what makes a learning rate the best as options."""
        experiment = self.experiments[w.experiment]
        return options({key: experiment[key] for key in ("criterion", "loss_level")})

    def experiment_tables(self, w: Any) -> list[str]:
        """Return the tables of all experiments that have one, by the table's name."""
        names = [name for name, values in self.experiments.items() if has_table(w.table, values)]
        return [self.path("tables", w.table, f"{name}.parquet") for name in names]

"""The trainings of a run: a job for each network of an experiment, or for each of its seeds.

Networks that are soon trained share a job, for its start takes longer than one of them.
"""

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks.architectures import kind_of
from ntk_workflow import catalogue, training_resources
from ntk_workflow.figures.parameters import has_table
from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options
from ntk_workflow.resources import CORE
from ntk_workflow.settings import from_mapping, to_options, words
from ntk_workflow.trainings.settings import KernelSettings, TrainingSettings

#: The table of the kernels along training, which are files of the same jobs.
ALONG = "kernels_along_training"

#: Seconds of a core: an experiment's networks on a dataset that take no longer are one job.
ONE_JOB = 60


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

    def networks(self, w: Any) -> list[SimpleNamespace]:
        """Return what a job trains: the network that its file is named by, or else all of them.

        Each has the experiment, dataset, model, activation and depth, and ``seed`` if it is of one.
        """
        of = {"experiment": w.experiment, "dataset": w.dataset}
        if w.networks:
            _, model, activation, *numbers = w.networks.split("/")
            one = dict(number.split("-") for number in numbers)  # depth-4, seed-1
            return [SimpleNamespace(**of, model=model, activation=activation, **one)]
        values, depths = self.experiments[w.experiment], self.training_depths(w)
        every = product(values["models"], values["activations"], map(str, depths))
        names = ("model", "activation", "depth")
        return [SimpleNamespace(**of, **dict(zip(names, each, strict=True))) for each in every]

    def network_settings(self, network: Any) -> TrainingSettings:
        """Return the settings of one of a job's `networks`, which may be of a single seed."""
        settings = self.training_settings(network)
        seed = vars(network).get("seed")
        return replace(settings, seeds=(int(seed),)) if seed else settings

    def trained_networks(self, w: Any) -> list[str]:
        """Return a job's networks as options, each with its settings and its checkpoints."""
        test = [f"--test={self.placed(name)}" for name in self.test_samples(w)]
        along = [("--kernels-output", self.placed(name)) for name in self.kernels_along(w)]
        words = [*test, *(word for pair in along for word in pair)]
        for each in self.networks(w):
            numbers = [f"{key}-{vars(each)[key]}" for key in ("depth", "seed") if key in vars(each)]
            place = (each.experiment, each.dataset, each.model, each.activation, *numbers)
            words += ["--network", *self.network_options(each), f"--depth={each.depth}"]
            words += to_options(self.network_settings(each))
            words += [f"--kernel={self.placed(name)}" for name in self.critical_rates(each)]
            words += [f"--checkpoints={self.placed(self.path('checkpoints/training', *place))}"]
        return words

    def training_code(self, w: Any) -> str:
        """Return a parameter: the digest of what trains a job's networks."""
        every = self.networks(w)
        models = dict.fromkeys(each.model for each in every)
        names = [each.activation for each in every]
        return self.code_of(["scripts/train_network.py"], names, models)

    def kernels_along(self, w: Any) -> list[str]:
        """Return the table of the kernels along a job's trainings, if they are measured."""
        name = f"{w.dataset}{w.networks}.parquet"
        return [self.path(ALONG, w.experiment, name)] if self._measures(w.experiment) else []

    def _measures(self, experiment: str) -> bool:
        return bool(self.experiments[experiment]["kernels_along"])

    def experiments_along(self, measured: bool) -> str:
        """Return a pattern of the experiments whose kernels are measured along training, or not."""
        names = [name for name in self.experiments if self._measures(name) == measured]
        return "|".join(names) or "(?!)"

    def prediction_options(self, w: Any) -> list[str]:
        """Return the settings of trainings that are predicted as options."""
        return to_options(replace(self.training_settings(w), kernels_along=None))

    def predicted_trainings(self, w: Any) -> list[str]:
        """Return the curves of all depths with which predictions are compared."""
        return self._trained("training", w.experiment, w.dataset, f"/{w.model}/{w.activation}/")

    def _trained(self, table: str, experiment: str, dataset: str, of: str = "") -> list[str]:
        """Return the files of the jobs that train an experiment's networks on one dataset.

        Without those of other networks than ``of``, if there is a file for each.
        """
        row = self.path(table, experiment, dataset)
        if self.in_one_job(experiment, dataset):
            return [f"{row}.parquet"]
        values = self.experiments[experiment]
        seeds = [f"/seed-{seed}" for seed in values["seeds"]] if values["job_per_seed"] else [""]
        every = self.networks(SimpleNamespace(experiment=experiment, dataset=dataset, networks=""))
        names = [
            f"/{each.model}/{each.activation}/depth-{each.depth}{seed}.parquet"
            for each, seed in product(every, seeds)
        ]
        return [f"{row}{name}" for name in names if name.startswith(of)]

    @cache  # noqa: B019 one plan lives as long as Snakemake
    def in_one_job(self, experiment: str, dataset: str) -> bool:
        """Return whether one job trains all networks of an experiment on a dataset.

        It depends on the config and the catalogue alone, as does what files are called: not on what
        is found in files, on the user's own networks, or on whether there is a GPU.
        """
        values, entry = self.experiments[experiment], self.catalogue[dataset]
        loaded, d = catalogue.declared_shape(entry, self.speech_of(dataset))
        if not (loaded and d) or values["job_per_seed"] or {*values["models"]} & {*self.models}:
            return False
        of: Any = {"loaded": loaded, "d": d, "classes": catalogue.classes_of(entry)}
        flops = 0.0
        w = SimpleNamespace(experiment=experiment, dataset=dataset, networks="")
        for each in self.networks(w):
            settings = self.training_settings(each)
            flops += training_resources.training(each.model, settings, int(each.depth), **of).flops
        return flops / CORE["train_network"].rate <= ONE_JOB

    def kernel_options(self, w: Any) -> list[str]:
        """Return the options of the NTK where trainings begin, with their depths."""
        settings = from_mapping(KernelSettings, vars(self.training_settings(w)))
        return [*to_options(settings), *words("depths", self.training_depths(w))]

    def training_depths(self, w: Any) -> list[int]:
        """Return the depths of an experiment's networks on one dataset."""
        values = self.experiments[w.experiment]
        return list(values["overrides"].get(w.dataset, {}).get("depths", values["depths"]))

    def training_kernel(self, w: Any) -> list[str]:
        """Return the tables of critical rates that a job's networks need."""
        needed = (name for each in self.networks(w) for name in self.critical_rates(each))
        return [*dict.fromkeys(needed)]

    def critical_rates(self, network: Any) -> list[str]:
        """Return the table of a network's critical rates, if its own are multiples of them."""
        of = (network.experiment, network.dataset, network.model, f"{network.activation}.parquet")
        needed = self.training_settings(network).relative_rates
        return [self.path("training_kernels", *of)] if needed else []

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
        if table == "training" or (table == ALONG and self._measures(experiment)):
            for dataset in values["datasets"]:
                files += self._trained(table, experiment, dataset)
        elif table != ALONG:
            for names in product(values["datasets"], values["models"], values["activations"]):
                of = SimpleNamespace(experiment=experiment, dataset=names[0], model=names[1])
                if values["predict"] if table == "predictions" else self.has_kernel(of):
                    files.append(f"{self.path(table, experiment, *names)}.parquet")
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

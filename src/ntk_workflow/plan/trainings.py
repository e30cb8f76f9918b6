"""The trainings of a run: a job for each network of an experiment, or for each of its seeds.

Networks that are soon trained share a job, for its start takes longer than one of them.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks.architectures import depth_problem, kind_of, sizes
from ntk_workflow import catalogue
from ntk_workflow.figures.parameters import has_table
from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options, refuse
from ntk_workflow.settings import to_options
from ntk_workflow.trainings.settings import TrainingSettings

#: The table of the kernels along training, which are files of the same jobs.
ALONG = "kernels_along_training"

#: An experiment's networks on a dataset that take no more multiplications are one job, a minute or
#: so of a core. A step of a layer counts as some of these, and so does a hidden unit of torch's
#: modules; a network has ten outputs. Names of files depend on all four.
ONE_JOB, STEP, UNIT, OUTPUTS = 2 * 10**12, 5 * 10**6, 300, 10


@dataclass(frozen=True)
class Network:
    """A network of an experiment, of all seeds or of one."""

    experiment: str
    dataset: str
    model: str
    activation: str
    depth: int
    seed: int | None = None

    @property
    def name(self) -> str:
        """Its part of a file's name."""
        seed = "" if self.seed is None else f"/seed-{self.seed}"
        return f"/{self.model}/{self.activation}/depth-{self.depth}{seed}"


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

    def every_network(self, experiment: str, dataset: str) -> list[Network]:
        """Return an experiment's networks on a dataset, in an order that is not the config's."""
        values = self.experiments[experiment]
        depths = self.training_depths(SimpleNamespace(experiment=experiment, dataset=dataset))
        every = sorted({*product(values["models"], values["activations"], depths)})
        return [Network(experiment, dataset, *each) for each in every]

    def networks(self, w: Any) -> list[Network]:
        """Return what a job trains: the network that its file is named by, or else all of them."""
        if w.networks:
            _, model, activation, *numbers = w.networks.split("/")
            depth, *seed = (int(number.partition("-")[2]) for number in numbers)
            return [Network(w.experiment, w.dataset, model, activation, depth, *seed)]
        if not self.in_one_job(w.experiment, w.dataset):
            first, *_ = self._trained("training", w.experiment, w.dataset)
            refuse(f"several jobs train {w.experiment} on {w.dataset}; ask for {first}, say")
        return self.every_network(w.experiment, w.dataset)

    def network_settings(self, network: Network) -> TrainingSettings:
        """Return the settings of a network, which may be of a single seed."""
        settings = self.training_settings(network)
        if network.seed is None:
            return settings
        critical = settings.seeds if settings.rate_unit == "smallest_critical" else ()
        return replace(settings, seeds=(network.seed,), critical_seeds=critical)

    def trained_networks(self, w: Any) -> list[str]:
        """Return a job's networks as options, each with its settings and its checkpoints."""
        words = [f"--test={self.placed(name)}" for name in self.test_samples(w)]
        for name in self.kernels_along(w):
            words += ["--kernels-output", self.placed(name)]  # a word that the job's record knows
        for each in self.networks(w):
            words += ["--network", *self.network_options(each), f"--depth={each.depth}"]
            words += to_options(self.network_settings(each))
            kept = self.path("checkpoints/training", each.experiment, f"{each.dataset}{each.name}")
            words += [f"--checkpoints={self.placed(kept)}"]
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
        return self._trained("training", w.experiment, w.dataset, of=(w.model, w.activation))

    def _trained(
        self, table: str, experiment: str, dataset: str, of: tuple[str, str] | None = None
    ) -> list[str]:
        """Return the files of the jobs that train an experiment's networks on one dataset.

        Where there is a file for each, only those ``of`` a model and activation.
        """
        row, values = self.path(table, experiment, dataset), self.experiments[experiment]
        if self.in_one_job(experiment, dataset):
            return [f"{row}.parquet"]
        seeds = values["seeds"] if values["job_per_seed"] else [None]
        every = self.every_network(experiment, dataset)
        chosen = [each for each in every if of in (None, (each.model, each.activation))]
        names = (replace(each, seed=seed).name for each, seed in product(chosen, seeds))
        return [f"{row}{name}.parquet" for name in names]

    @cache  # noqa: B019 one plan lives as long as Snakemake
    def in_one_job(self, experiment: str, dataset: str) -> bool:
        """Return whether one job trains all networks of an experiment on a dataset.

        It depends on the config and the catalogue alone, for the names of files do: not on what is
        found in files, on whether there is a GPU, or on how fast jobs are thought to be. Nor are
        predictions of some networks to be made again when others are trained.
        """
        values, every = self.experiments[experiment], self.every_network(experiment, dataset)
        kinds = {(each.model, each.activation) for each in every}
        if values["job_per_seed"] or (values["predict"] and len(kinds) > 1):
            return False
        return sum(map(self._multiplications, every)) <= ONE_JOB

    def _multiplications(self, network: Network) -> float:
        """Return about how many a training takes; infinitely many where that is not known."""
        entry, kind = self.catalogue[network.dataset], kind_of(network.model)
        loaded, d = catalogue.declared_shape(entry, self.speech_of(network.dataset))
        settings = self.training_settings(network)
        possible = settings.image or not kind.needs_images
        possible = possible and not depth_problem(network.model, network.depth)
        if not (loaded and d and possible) or kind.family == "own":
            return math.inf
        size = {"d": d, "width": settings.width, "depth": network.depth, "outputs": OUTPUTS}
        of = sizes(network.model, **size, image=settings.image)
        n = loaded if settings.samples == "all" else settings.samples
        steps = 1 if settings.batch_size == "all" else -(-n // settings.batch_size)
        products = of.products + (UNIT * of.units if kind.by_modules else 0)
        total = settings.epochs * (3 * n * products + steps * STEP * (network.depth + 1))
        if settings.kernels_along:
            samples, points = settings.kernels_along
            s = min(n, samples)
            total += points * s**2 * (3 * s + OUTPUTS * of.units)
        return float(len(settings.seeds) * len(settings.learning_rates) * total)

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
        values, files = self.experiments[experiment], []
        if table == "predictions":
            axes = (values[key] for key in ("datasets", "models", "activations"))
            for names in product(*axes) if values["predict"] else ():
                files.append(f"{self.path(table, experiment, *names)}.parquet")
        elif table != ALONG or self._measures(experiment):
            for dataset in values["datasets"]:
                files += self._trained(table, experiment, dataset)
        return files

    def criterion(self, w: Any) -> list[str]:
        """Return what makes a learning rate the best as options."""
        experiment = self.experiments[w.experiment]
        return options({key: experiment[key] for key in ("criterion", "loss_level")})

    def experiment_tables(self, w: Any) -> list[str]:
        """Return the tables of all experiments that have one, by the table's name."""
        names = [name for name, values in self.experiments.items() if has_table(w.table, values)]
        return [self.path("tables", w.table, f"{name}.parquet") for name in names]

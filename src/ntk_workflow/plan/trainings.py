"""The trainings of a run: a job for each network of an experiment, or for each of its seeds.

The wildcard ``per_seed`` of their files is empty, or ``/seed-1`` where a job trains one seed.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from typing import Any

from ntk_conditioning.networks.architectures import kind_of
from ntk_workflow import catalogue
from ntk_workflow.checks import require
from ntk_workflow.run import Run
from ntk_workflow.trainings.settings import TrainingSettings
from ntk_workflow.yaml_files import to_words

#: The key of an experiment that asks for a table, by table; the others are made of all.
ASKED_FOR = {"predictions": "predict", "kernels_along_training": "kernels_along"}
#: Tables of trained networks that jobs compute, one for each experiment.
TRAINED_TABLES = ("training", "training_kernels", *ASKED_FOR)
TRAINING_TABLES = (*TRAINED_TABLES, "learning_rates")


def has_table(table: str, experiment: Mapping[str, Any]) -> bool:
    """Return whether an experiment, which is not switched off, has a table of trained networks."""
    return table not in ASKED_FOR or bool(experiment.get(ASKED_FOR[table]))


def settings(run: Run, w: Any, **changes: Any) -> TrainingSettings:
    """Return the settings of a job, as they hold for its model on its dataset, with ``changes``.

    It may train a single seed.
    """
    values = dict(run.experiments[w.experiment])
    overrides = values.pop("overrides")
    for name in (w.dataset, w.model):  # where both have an exception, the model's is taken
        values |= overrides.get(name, {})
    image = run.image(w.dataset) if kind_of(w.model).by_modules else None
    job = TrainingSettings.from_config(values, image=image)
    if samples_for_tests(run, w.dataset):
        changes["test_share"] = 0.0
    if seed := w.get("per_seed", "").removeprefix("/seed-"):
        critical = job.seeds if job.rate_unit == "smallest_critical" else ()
        changes |= {"seeds": (int(seed),), "critical_seeds": critical}
    return replace(job, **changes)


def setting_options(run: Run, w: Any, **changes: Any) -> list[str]:
    """Return the settings of a job as KEY=VALUE."""
    return to_words(asdict(settings(run, w, **changes)))


def samples_for_tests(run: Run, dataset: str, extension: str = "npz") -> list[str]:
    """Return the test samples of a dataset that has some."""
    name = run.path("datasets", dataset, f"test.{extension}")
    return [name] if catalogue.files_of(run.catalogue[dataset], "test") else []


def datasheets(run: Run, dataset: str) -> list[str]:
    """Return the datasheets of a training's samples, which tell when they change."""
    return [run.path("datasets", dataset, "all.json"), *samples_for_tests(run, dataset, "json")]


def experiments(run: Run, *, along: bool) -> str:
    """Return a pattern of the experiments whose kernels are measured along training, or not."""
    measured = {name: bool(values["kernels_along"]) for name, values in run.experiments.items()}
    names = [name for name in measured if measured[name] == along]
    return "|".join(names) or "(?!)"


def training_files(run: Run, table: str, experiment: str) -> list[str]:
    """Return the curves of an experiment's networks, or their kernels: a file of each job."""
    require(run, f"training.{experiment}")
    values = run.experiments[experiment]
    if not has_table(table, values):
        return []
    seeds = [f"/seed-{seed}" for seed in values["seeds"]] if values["job_per_seed"] else [""]
    files = []
    for dataset in values["datasets"]:
        depths = values["overrides"].get(dataset, {}).get("depths", values["depths"])
        jobs = [f"/depth-{depth}{seed}" for depth, seed in product(depths, seeds)]
        for model, activation in product(values["models"], values["activations"]):
            network = run.path(table, experiment, dataset, model, activation)
            names = [""] if table == "predictions" else jobs
            files += [f"{network}{name}.parquet" for name in names]
    return files


def predicted(run: Run, w: Any) -> list[str]:
    """Return the curves of all depths with which predictions are compared."""
    network = run.path("training", w.experiment, w.dataset, w.model, w.activation)
    files = training_files(run, "training", w.experiment)
    return [file for file in files if file.startswith(f"{network}/")]

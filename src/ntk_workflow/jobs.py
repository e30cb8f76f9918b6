"""What the jobs of a rule ask a scheduler for, from the config and the sizes of the datasets."""

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ntk_workflow import catalogue
from ntk_workflow.resources import MOST_MINUTES, Samples, Size
from ntk_workflow.run import Run
from ntk_workflow.slurm_limits import SNAKEMAKE


def resources_of(
    run: Run, rule: str, *, study: str = "", gpu: bool = False
) -> dict[str, Callable[..., int]]:
    """Return the resources of a rule: MB, minutes, and seconds of a core, or of the ``gpu``.

    They come from the function of the rule's name in `resources`, or in the module of a study.
    Attempts double memory, up to four times, and time, up to a day.
    """
    module = import_module(f"ntk_workflow.studies.{study}" if study else "ntk_workflow.resources")

    @cache
    def size(**wildcards: str) -> Size:
        dataset = wildcards.get("dataset", "")
        exception = run.config["overrides"].get(dataset, {})
        config, samples = {**run.config, **exception, "models": {}}, Samples(50_000, 1000)
        if entry := run.catalogue.get(dataset):
            (n, d), classes = run.shape(dataset), catalogue.classes_of(entry)
            samples = Samples(n or samples.n, d or samples.d, run.image(dataset), classes)
            if d:  # the user's networks are tried on a sample
                config["models"] = run.models
        needed: Size = getattr(module, rule)(SimpleNamespace(**wildcards), config, samples)
        return needed

    def mem_mb(wildcards: Any, attempt: int) -> int:
        megabytes = math.ceil(1.25e-6 * size(**dict(wildcards)).memory)
        times: int = min(2 ** (attempt - 1), 4)
        return megabytes * times + SNAKEMAKE // 10**6

    def core_seconds(wildcards: Any) -> int:
        needed = size(**dict(wildcards))
        # until a program has started it takes two seconds
        return math.ceil(2 + needed.seconds / (needed.gpu if gpu else 1))

    def runtime(wildcards: Any, attempt: int, threads: int) -> int:
        minutes = core_seconds(wildcards) / 60 / (1 if gpu else threads)
        times: int = 2 ** (attempt - 1)
        return min(MOST_MINUTES, math.ceil(max(10, 3 * minutes)) * times)

    return {"mem_mb": mem_mb, "runtime": runtime, "core_seconds": core_seconds}

"""Name the width that fits when a training runs out of memory."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

import torch

from ntk_conditioning.memory import GB, NotEnoughMemoryError, available_bytes
from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow.cli import memory_problem
from ntk_workflow.trainings.networks import TrainingTask

# By name: the digest of a program follows its imports, and no estimate changes what is trained.
_resources = import_module("ntk_workflow.resources")
_estimates = import_module("ntk_workflow.training_resources")


@contextmanager
def suggest_width_on_oom(task: TrainingTask, device: torch.device) -> Iterator[None]:
    """Raise `NotEnoughMemoryError` with the width that fits where memory runs out within this.

    Networks of the user's own keep the plain error.
    """
    settings, (n, d) = task.settings, task.samples.shape

    def needed(width: int) -> int:
        samples = _resources.Samples(n, d, classes=task.samples.classes)
        of = (task.model, replace(settings, width=width), task.depth, samples)
        return int(_estimates.training(*of, together=device.type == "cuda").memory)

    available = available_bytes()  # before the networks take some of it
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if task.model not in MODELS or not (problem := memory_problem(error)):
            raise
        if device.type == "cuda":
            available = torch.cuda.get_device_properties(device).total_memory
        count, width = len(settings.seeds) * len(settings.learning_rates), settings.width
        fits = bisect_right(range(1, width + 1), available, key=needed)
        advice = f"a width of at most {fits} fits" if fits else "no width fits"
        advice += "; else use fewer seeds, learning_rates or samples, or a smaller batch_size"
        if fits == width:  # by the estimate all of it does
            advice = "use a smaller batch_size, or see that nobody else uses this memory"
        raise NotEnoughMemoryError(
            f"{problem.partition(';')[0]}: {count} networks of width {width} take about "
            f"{needed(width) / GB:.1f} GB, and {available / GB:.1f} GB are available; {advice}"
        ) from error

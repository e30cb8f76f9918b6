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
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.settings import Point, TrainingSettings

# By name: the digest of a program follows its imports, and no estimate changes what is trained.
_resources = import_module("ntk_workflow.resources")
_estimates = import_module("ntk_workflow.training_resources")


@contextmanager
def telling_what_fits(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    device: torch.device,
    *,
    together: bool,
) -> Iterator[None]:
    """Raise `NotEnoughMemoryError` with the width that fits where memory runs out within this.

    ``together`` says whether the networks of mlp are computed at once.

    Of networks of the user's own only the shortage is told, not the width.
    """
    available = available_bytes()  # before the networks take some of it
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if point.model not in MODELS or not (problem := memory_problem(error)):
            raise
        if device.type == "cuda":
            available = torch.cuda.get_device_properties(device).total_memory
        count = len(settings.seeds) * len(settings.learning_rates)
        needed = needed_bytes(point, settings, samples, together=together)
        raise NotEnoughMemoryError(
            f"{problem.partition(';')[0]}: {count} networks of width {settings.width} take about "
            f"{needed / GB:.1f} GB, and {available / GB:.1f} GB are available; "
            f"{_offer(point, settings, samples, available, together=together)}"
        ) from error


def _offer(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    available: int,
    *,
    together: bool,
) -> str:
    width = fitting_width(point, settings, samples, available, together=together)
    if width == settings.width:  # by the estimate all of it does
        return "use a smaller batch_size, or see that nobody else uses this memory"
    fits = f"a width of at most {width} fits" if width else "no width fits"
    return f"{fits}; else use fewer seeds, learning_rates or samples, or a smaller batch_size"


def needed_bytes(
    point: Point, settings: TrainingSettings, samples: LabelledSamples, *, together: bool = False
) -> float:
    """Return the memory that a training takes, by estimate."""
    n, d = samples.shape
    data = _resources.Samples(n, d, classes=samples.classes)
    size = _estimates.training(point.model, settings, point.depth, data, together=together)
    return float(size.memory)


def fitting_width(
    point: Point,
    settings: TrainingSettings,
    samples: LabelledSamples,
    available: float,
    *,
    together: bool = False,
) -> int:
    """Return the largest width, at most that of the settings, that fits; 0 if none does."""

    def needed(width: int) -> float:
        return needed_bytes(point, replace(settings, width=width), samples, together=together)

    return bisect_right(range(1, settings.width + 1), available, key=needed)

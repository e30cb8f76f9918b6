"""The rows of a training's table: its settings, and the curve of each network."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ntk_conditioning.tables.training import TRAINING, curve_rows
from ntk_conditioning.training.trainer import Training
from ntk_workflow.trainings.data import LabelledSamples
from ntk_workflow.trainings.networks import image_of
from ntk_workflow.trainings.settings import Point, TrainingSettings


def ensemble_rows(
    point: Point, settings: TrainingSettings, samples: LabelledSamples, ensemble: Training[Any]
) -> list[dict[str, Any]]:
    """Return the rows of an ensemble's curves."""
    (n, d), batch = samples.shape, settings.batch_size
    values = {
        **asdict(point),
        **asdict(settings),
        "batch_size": n if batch == "all" else min(batch, n),
        "decay_at": " ".join(map(str, settings.decay_at)) or "none",
        "image": " ".join(map(str, image_of(point, settings) or ["none"])),
        "n": n,
        "n_test": samples.n_test,
        "d": d,
        "classes": samples.classes,
    }
    columns = {column.name for column in TRAINING.columns}
    return [
        row
        for number, member in enumerate(ensemble.members)
        for row in curve_rows(
            {name: value for name, value in values.items() if name in columns},
            seed=member.seed,
            rate=member.rate,
            steps_per_epoch=ensemble.steps_per_epoch,
            metrics={name: metric[:, number].tolist() for name, metric in ensemble.metrics.items()},
            diverged=int(ensemble.diverged[number]),
            epochs=ensemble.course.evaluated,
        )
    ]

"""What a job costs: work and memory from its sizes, time from a model, and what it asks for.

Nothing here imports torch: a workflow asks for the costs of all its jobs before it starts any.
"""

from ntk_workflow.resources.model import (
    DEFAULTS,
    GPU_DEFAULTS,
    LIGHT_PACE,
    Model,
    Observation,
    Pace,
)
from ntk_workflow.resources.requests import memory_mb, minutes
from ntk_workflow.resources.totals import Planned, Totals, planned_costs, predicted_costs
from ntk_workflow.resources.work import (
    GRADIENTS,
    KERNEL_SAMPLES,
    LIGHT,
    Work,
    assembly,
    bounds,
    cells,
    description,
    infinite_min_angle,
    infinite_spectrum,
    min_angle,
    module_training,
    preparation,
    spectrum,
    training,
    training_kernel,
)

__all__ = [
    "DEFAULTS",
    "GPU_DEFAULTS",
    "GRADIENTS",
    "KERNEL_SAMPLES",
    "LIGHT",
    "LIGHT_PACE",
    "Model",
    "Observation",
    "Pace",
    "Planned",
    "Totals",
    "Work",
    "assembly",
    "bounds",
    "cells",
    "description",
    "infinite_min_angle",
    "infinite_spectrum",
    "memory_mb",
    "min_angle",
    "minutes",
    "module_training",
    "planned_costs",
    "predicted_costs",
    "preparation",
    "spectrum",
    "training",
    "training_kernel",
]

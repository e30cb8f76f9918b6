"""Training on a CUDA device: all networks together, one after another, and PyTorch's loop."""

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from benchmarks.gpu import complete, device_facts, require_device
from benchmarks.loops import (
    SAME,
    Networks,
    PlainLoop,
    Products,
    blas_threads,
    require_same_weights,
    trained_weights,
    weights,
)
from benchmarks.report import machine_facts, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, ratios, spread, stopwatch
from benchmarks.training import COMPARED_STEPS, most_epochs, shrunk
from ntk_conditioning.networks.gradient_tiles import full_precision

TITLE = "Training on a GPU"
DEPTHS = (1, 4, 8)
PRECISIONS = ("float32", "tf32")
LABELS = {
    "together": "this project, all networks together",
    "separate": "this project, one network after another",
    "torch": "PyTorch, one network after another",
    "products": "the products of all networks alone",
}
# Of a move, as in `loops.SAME`: TF32 keeps 10 bits, and one unit in two thousand changes its sign.
SAME_TF32 = 0.3
log = logging.getLogger("benchmarks")


def measure(settings: Settings, *, device: str = "cuda") -> dict[str, Any]:
    """Return times of an epoch by depth and precision.

    Raises:
        NoDeviceError: if there is no device.
        DifferentResultError: if two ways of training end with other weights.
    """
    require_device(device)
    depths = (1, 2) if settings.quick else DEPTHS
    return {
        "machine": machine_facts(settings.threads),
        "device": device_facts(device),
        "points": [
            measure_depth(shrunk(Networks(depth, seeds=5), settings), settings, device, precision)
            for precision in PRECISIONS
            for depth in depths
        ],
    }


def measure_depth(
    problem: Networks, settings: Settings, device: str, precision: str
) -> dict[str, Any]:
    """Return the seconds of an epoch of all networks, by method."""
    log.info("%s, %s on %s", problem, precision, device)
    tf32 = precision == "tf32"
    differences = compare(problem, settings.threads, device=device, tf32=tf32)
    calls: dict[str, Callable[[], object]] = {}
    for name in ("together", "separate"):
        ensemble = problem.ensemble(
            epochs=most_epochs(settings), together=name == "together", device=device
        )
        ensemble.advance()  # epoch 0 is an evaluation
        calls[name] = ensemble.advance
    calls["torch"] = PlainLoop(problem, weights(ensemble), device=device).epoch
    products = Products(problem, device=device)
    calls["products"] = products.epoch
    methods = {name: stopwatch(complete(call, device)) for name, call in calls.items()}
    with full_precision(tf32=tf32):
        for timed in methods.values():
            timed()
        seconds = interleaved(methods, rounds=settings.rounds)
    flops = problem.n // problem.batch * products.flops
    return {
        **asdict(problem),
        "precision": precision,
        "networks": len(problem.members),
        "steps": problem.steps,
        "differences": differences,
        "seconds": seconds,
        "over_together": ratios(seconds, "together"),
        "share_of_products": ratio(seconds["products"], seconds["together"]),
        "gflops": spread(1e-9 * flops / taken for taken in seconds["together"]),
    }


def compare(problem: Networks, threads: int, *, device: str, tf32: bool) -> dict[str, float]:
    """Return how far weights are from the processor's after a few steps on the same batches.

    Raises:
        DifferentResultError: if that is more than rounding.
    """
    few = replace(problem, seeds=2, n=COMPARED_STEPS * problem.batch)
    start = weights(few.ensemble(epochs=1))
    with blas_threads(threads), full_precision(tf32=tf32):
        reference = trained_weights(few, together=True)
        trained = {
            "together": trained_weights(few, together=True, device=device),
            "separate": trained_weights(few, together=False, device=device),
            "torch": PlainLoop(few, start, device=device).trained_weights(),
        }
    same = SAME_TF32 if tf32 else SAME
    return {
        name: require_same_weights(f"{LABELS[name]} ({problem})", taken, reference, start, same)
        for name, taken in trained.items()
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first, device = result["points"][0], result["device"]
    versions = result["machine"]["versions"]
    about = f", CUDA {device['cuda']}" if "cuda" in device else ""
    lines = [
        f"{device['name']}{about}; torch {versions['torch']}.",
        "",
        f"An epoch of {first['networks']} networks of 5 seeds and 8 rates: {first['n']:,} samples "
        "in batches of",
        f"{first['batch']}, d {first['d']}, width {first['width']}, ten classes, cross-entropy; "
        "evaluations are not counted.",
        "The products are those of the same shapes that a step needs, of all networks at once,",
        "into memory that is there already. Weights are compared with the processor's after some",
        "steps, before anything is timed.",
        f"Rounds: {len(first['seconds']['together'])}. In TF32 weights may differ by {SAME_TF32} "
        "of their move.",
        "Only networks together have their steps recorded and replayed as a CUDA graph.",
        "",
        *table(
            ("precision", "depth", "", "seconds", "steps a second", "over all together"),
            [row for point in result["points"] for row in rows(point)],
        ),
        *table(
            ("precision", "depth", "share of the products' rate", "TFLOP/s"),
            [
                (
                    point["precision"],
                    point["depth"],
                    spread_text(point["share_of_products"], 2),
                    f"{point['gflops']['median'] / 1000:.3g}",
                )
                for point in result["points"]
            ],
        ),
        *(about_modules(result["modules"]) if "modules" in result else []),
    ]
    return "\n".join(lines)


def about_modules(modules: list[dict[str, Any]]) -> list[str]:
    """Return what an earlier version measured of networks of torch's modules."""
    first = modules[0]
    return [
        f"One network of torch's modules, NormReLU, {first['steps']} steps of {first['batch']} "
        "images of 32 × 32 × 3, as `agarwal2021deep`",
        "trains them; the rate is that of operations, six for each multiply-add of a sample.",
        "",
        *table(
            ("network", "precision", "seconds", "steps a second", "rate"),
            [
                (
                    f"`{point['model']}`, depth {point['depth']}, width {point['width']}",
                    precision,
                    spread_text(spread(seconds)),
                    f"{point['steps'] / spread(seconds)['median']:,.0f}",
                    f"{point['rate'][precision]['median']:.2g}",
                )
                for point in modules
                for precision, seconds in point["seconds"].items()
            ],
        ),
    ]


def rows(point: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the rows of a depth."""
    together = {"together"}
    return [
        (
            point["precision"] if name in together else "",
            point["depth"] if name in together else "",
            label,
            spread_text(spread(point["seconds"][name])),
            f"{spread(point['steps'] / s for s in point['seconds'][name])['median']:,.0f}",
            "1" if name in together else spread_text(point["over_together"][name]),
        )
        for name, label in LABELS.items()
    ]

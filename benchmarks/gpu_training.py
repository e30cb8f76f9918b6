"""Training on a CUDA device: all networks together, one after another, and PyTorch's loop."""

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu import complete, device_facts, require_device
from benchmarks.loops import (
    CLASSES,
    Networks,
    PlainLoop,
    Products,
    blas_threads,
    require_same_weights,
    weights,
)
from benchmarks.report import machine_facts, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, ratios, spread, stopwatch
from benchmarks.training import COMPARED_STEPS, most_epochs, shrunk
from ntk_conditioning.networks import activations, architectures
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.trainer import Member, Part
from ntk_workflow.trainings.loop import fixed_sums

TITLE = "Training on a GPU"
DEPTHS = (1, 4, 8)
PRECISIONS = ("float32", "tf32")
LABELS = {
    "together": "this project, all networks together",
    "separate": "this project, one network after another",
    "torch": "PyTorch, one network after another",
    "products": "the products of all networks alone",
}
IMAGE, IMAGES, BATCH = (32, 32, 3), 1280, 128
#: Of agarwal2021deep's networks on CIFAR-10, by model, those of the lesser depth.
MODULES: dict[str, dict[str, int]] = {
    "resnet_batch_norm": {"depth": 32, "width": 16},
    "fc_layer_norm": {"depth": 32, "width": 3000},
}
MODULE_PRECISIONS = ("float32", "tf32", "bf16")

# Of a move, as in `loops.SAME`: TF32 keeps 10 bits, and one unit in two thousand changes its sign.
SAME_TF32 = 0.3
log = logging.getLogger("benchmarks")


def measure(settings: Settings, *, device: str = "cuda") -> dict[str, Any]:
    """Return times of an epoch by depth and precision, and those of a ResNet.

    Raises:
        NoDeviceError: if there is no device.
        DifferentResultError: if two ways of training end with other weights.
    """
    require_device(device)
    depths = (1, 2) if settings.quick else DEPTHS
    modules = [measure_module(model, settings, device=device) for model in MODULES]
    points = [
        measure_depth(
            shrunk(Networks(depth, seeds=5), settings),
            settings,
            device=device,
            precision=precision,
        )
        for precision in PRECISIONS
        for depth in depths
    ]
    return {
        "machine": machine_facts(settings.threads),
        "device": device_facts(device),
        "points": points,
        "modules": modules,
    }


def measure_depth(
    problem: Networks, settings: Settings, *, device: str, precision: str
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
    found = {}
    with blas_threads(threads):
        for name, place in (("reference", "cpu"), ("together", device), ("separate", device)):
            ensemble = few.ensemble(epochs=1, together=name != "separate", device=place)
            with full_precision(tf32=tf32):
                while not ensemble.finished:
                    ensemble.advance()
            found[name] = weights(ensemble)
        plain = PlainLoop(few, start, device=device)
        with full_precision(tf32=tf32):
            plain.epoch()
        found["torch"] = plain.weights()
    reference, same = found.pop("reference"), {"same": SAME_TF32} if tf32 else {}
    return {
        name: require_same_weights(f"{LABELS[name]} ({problem})", taken, reference, start, **same)
        for name, taken in found.items()
    }


def measure_module(model: str, settings: Settings, *, device: str) -> dict[str, Any]:
    """Return the seconds of an epoch of one network of torch's modules, by precision."""
    shape = MODULES[model] if not settings.quick else {"depth": 8, "width": 2}
    n, batch = (IMAGES, BATCH) if not settings.quick else (8, 4)
    d, epochs = int(np.prod(IMAGE)), most_epochs(settings)
    make = partial(
        make_network,
        model,
        **shape,
        d=d,
        image=IMAGE,
        outputs=CLASSES,
        activation=activations.get("normrelu"),
        dtype=torch.float32,
    )
    stream = generator(0, "data")
    samples = (n, 3, *IMAGE[:2]) if MODELS[model].needs_images else (n, d)
    x = torch.from_numpy(stream.standard_normal(samples)).to(device, torch.float32)
    y = torch.from_numpy(stream.integers(CLASSES, size=n)).to(device)
    codes = {"outputs": "classes", "classes": CLASSES, "dtype": torch.float32, "device": device}
    loss = make_loss("cross_entropy", **codes)
    course = {"epochs": epochs, "batch_size": batch, "evaluate_every": epochs}
    course |= {"momentum": 0.9, "weight_decay": 1e-4}
    seconds = {}
    for precision in MODULE_PRECISIONS:
        log.info("%s of depth %d, %s on %s", model, shape["depth"], precision, device)
        descent = Descent(**course, mixed_precision=precision == "bf16")
        ensemble = ModuleEnsemble(make, loss, [Member(1, 0.001)], {1: Part(x, y)}, descent=descent)
        timed = stopwatch(complete(ensemble.advance, device))
        with fixed_sums(tf32=precision != "float32"):
            ensemble.advance()
            timed()
            seconds[precision] = [timed() for _ in range(settings.rounds)]
    operations = _operations(model, **shape, n=n)
    return {
        "model": model,
        **shape,
        "n": n,
        "batch": batch,
        "steps": n // batch,
        "seconds": seconds,
        "rate": {name: spread(operations / s for s in taken) for name, taken in seconds.items()},
    }


def _operations(model: str, *, depth: int, width: int, n: int) -> float:
    """Return the operations of an epoch's steps: six for each multiply-add of a sample."""
    shape: dict[str, Any] = {"depth": depth, "width": width, "outputs": CLASSES, "image": IMAGE}
    return 6.0 * n * architectures.sizes(model, d=int(np.prod(IMAGE)), **shape).products


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
        *about_modules(result["modules"]),
    ]
    return "\n".join(lines)


def about_modules(modules: list[dict[str, Any]]) -> list[str]:
    """Return what was measured of networks of torch's modules, in words and as a table."""
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

"""Training of ensembles: ours and a plain PyTorch loop."""

import logging
from dataclasses import asdict, replace
from typing import Any

from benchmarks.loops import (
    Networks,
    PlainLoop,
    blas_threads,
    require_same_weights,
    trained_weights,
    weights,
    with_threads,
)
from benchmarks.problem import gemm_rates
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratios, spread, stopwatch
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.threads import pool

TITLE = "Training of ensembles"
DEPTHS = (1, 5, 10)
LABELS = {
    "ours": "this project, a thread for each network",
    "torch": "PyTorch, one network after another",
    "loader": "PyTorch, samples from its DataLoader",
}
COMPARED_STEPS = 3
TINY: dict[str, Any] = {"n": 48, "batch": 16, "d": 8, "width": 16, "rates": (0.5, 1.0)}
log = logging.getLogger("benchmarks")


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of an epoch by depth.

    Raises:
        DifferentResultError: if two ways of training end with other weights.
    """
    depths = (1, 2) if settings.quick else DEPTHS
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "points": [measure_depth(shrunk(Networks(d), settings), settings) for d in depths],
    }


def shrunk(problem: Networks, settings: Settings) -> Networks:
    """Return the problem, or a tiny one of the same depth for a quick run."""
    return replace(problem, depth=min(problem.depth, 2), **TINY) if settings.quick else problem


def measure_depth(problem: Networks, settings: Settings) -> dict[str, Any]:
    """Return the seconds of an epoch of all networks, by method."""
    log.info("%s", problem)
    threads = settings.threads
    differences = compare(problem, threads)
    ours = problem.ensemble(epochs=most_epochs(settings))
    plain, loaded = (PlainLoop(problem, weights(ours), loader=flag) for flag in (False, True))
    with full_precision(), pool(threads) as workers:
        ours.advance()  # epoch 0 is an evaluation
        methods = {
            "ours": with_threads(1, stopwatch(lambda: ours.advance(workers=workers))),
            "torch": with_threads(threads, stopwatch(plain.epoch)),
            "loader": with_threads(threads, stopwatch(loaded.epoch)),
        }
        for timed in methods.values():
            timed()
        seconds = interleaved(methods, rounds=settings.rounds)
    return {
        **asdict(problem),
        "networks": len(problem.members),
        "steps": problem.steps,
        "differences": differences,
        "seconds": seconds,
        "ratios": ratios(seconds, "ours"),
    }


def most_epochs(settings: Settings) -> int:
    """Return more epochs than are timed: each round may call twice, and a call warms up."""
    return 2 * (settings.rounds + 1) + 1


def compare(problem: Networks, threads: int) -> dict[str, float]:
    """Return how far weights differ from ours after a few steps on the same batches.

    Raises:
        DifferentResultError: if that is more than rounding.
    """
    few = replace(problem, n=COMPARED_STEPS * problem.batch)
    start = weights(few.ensemble(epochs=1))
    with full_precision(), blas_threads(threads):
        ours = trained_weights(few, together=False)
        trained = {
            "torch": PlainLoop(few, start).trained_weights(),
            "loader": PlainLoop(few, start, loader=True).trained_weights(),
        }
    return {
        name: require_same_weights(f"{LABELS[name]} ({problem})", taken, ours, start)
        for name, taken in trained.items()
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first = result["points"][0]
    head = ("depth", "", "seconds", "steps a second", "over ours")
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"An epoch of {first['networks']} networks of one seed and as many rates: {first['n']:,} "
        "samples in batches of",
        f"{first['batch']}, d {first['d']}, width {first['width']}, ten classes, cross-entropy, "
        "float32; evaluations are not counted.",
        "PyTorch's are modules with automatic differentiation and `torch.optim.SGD`. Weights are",
        "compared after some steps, before anything is timed.",
        "",
        *table(head, [row for point in result["points"] for row in rows(point)]),
    ]
    return "\n".join(lines)


def rows(point: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the rows of a depth."""
    return [
        (
            point["depth"] if name == "ours" else "",
            label,
            spread_text(spread(point["seconds"][name])),
            f"{spread(point['steps'] / s for s in point['seconds'][name])['median']:.3g}",
            spread_text(point["ratios"][name]) if name in point["ratios"] else "1",
        )
        for name, label in LABELS.items()
    ]

"""Training of ensembles: ours, a plain PyTorch loop, and the matrix products alone."""

import logging
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.checkpoints import save_seconds, shares, train_until_saved
from benchmarks.loops import (
    Networks,
    PlainLoop,
    Products,
    blas_threads,
    require_same_weights,
    weights,
    with_threads,
)
from benchmarks.problem import GEMM_SIZE, gemm_rates
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning import plotting
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.plotting import label_line_ends
from ntk_conditioning.threads import Team
from ntk_workflow.cli import limit_threads

TITLE = "Training of ensembles"
DEPTHS = (1, 5, 10)
JUDGED_DEPTH = 5
LABELS = {
    "ours": "this project, a thread for each network",
    "together": "this project, the products of all networks together",
    "torch": "PyTorch, one network after another",
    "loader": "PyTorch, samples from its DataLoader",
    "products_side": "the products alone, a thread for each network",
    "products_turn": "the products alone, one network after another",
}
PRODUCTS = ("products_side", "products_turn")
COLORS = {"ours": figures.OURS, "together": "#56B4E9", "torch": "#D55E00"}
SHORT = {"ours": "ours", "together": "together", "torch": "PyTorch"}
COMPARED_STEPS = 3
SAVED = Networks(10, seeds=5)  # of all depths the one with the largest checkpoints
ALONE = Networks(4, rates=(1.0,), n=60_000)  # of MNIST's size
TINY: dict[str, Any] = {"n": 48, "batch": 16, "d": 8, "width": 16, "rates": (0.5, 1.0)}
log = logging.getLogger("benchmarks")


def measure(settings: Settings) -> dict[str, Any]:
    """Return times by depth, and the cost of checkpoints.

    Raises:
        DifferentResultError: if two ways of training end with other weights.
    """
    quick = settings.quick
    rates = gemm_rates(size=256 if quick else GEMM_SIZE, rounds=settings.rounds)
    depths = (1, 2) if quick else DEPTHS
    points = [measure_depth(shrunk(Networks(depth), settings), settings) for depth in depths]
    alone = measure_depth(shrunk(ALONE, settings), settings)
    checkpoints = measure_checkpoints(settings)
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(judge(points, alone, checkpoints)),
        "points": points,
        "alone": alone,
        "checkpoints": checkpoints,
    }


def shrunk(problem: Networks, settings: Settings) -> Networks:
    """Return the problem, or a tiny one of the same depth for a quick run."""
    return replace(problem, depth=min(problem.depth, 2), **TINY) if settings.quick else problem


def measure_depth(problem: Networks, settings: Settings) -> dict[str, Any]:
    """Return the seconds of an epoch of all networks, by method."""
    log.info("%s", problem)
    threads = settings.threads
    differences = compare(problem, threads)
    epochs = most_epochs(settings)
    ours, together = (problem.ensemble(epochs=epochs, together=flag) for flag in (False, True))
    plain, loaded = (PlainLoop(problem, weights(ours), loader=flag) for flag in (False, True))
    products = Products(problem)
    with (
        full_precision(),
        ThreadPoolExecutor(threads, initializer=limit_threads, initargs=(1,)) as pool,
        Team(threads) as team,
    ):
        for ensemble in (ours, together):
            ensemble.advance()  # epoch 0 is an evaluation
        methods = {
            "ours": with_threads(1, stopwatch(lambda: ours.advance(team=team))),
            "together": with_threads(threads, stopwatch(together.advance)),
            "torch": with_threads(threads, stopwatch(plain.epoch)),
            "loader": with_threads(threads, stopwatch(loaded.epoch)),
            "products_side": with_threads(1, stopwatch(lambda: products.epoch(pool.map))),
            "products_turn": with_threads(threads, stopwatch(products.epoch)),
        }
        for timed in methods.values():
            timed()
        seconds = interleaved(methods, rounds=settings.rounds)
    fastest = min(PRODUCTS, key=lambda name: spread(seconds[name])["median"])
    return {
        **asdict(problem),
        "networks": len(problem.members),
        "steps": problem.steps,
        "flops": problem.steps * products.flops,
        "differences": differences,
        "seconds": seconds,
        "ratios": {
            name: ratio(taken, seconds["ours"]) for name, taken in seconds.items() if name != "ours"
        },
        "products": fastest,
        "share_of_products": {
            name: ratio(seconds[fastest], taken)
            for name, taken in seconds.items()
            if name not in PRODUCTS
        },
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
    found = {}
    with full_precision(), blas_threads(threads):
        for name, flag in (("ours", False), ("together", True)):
            ensemble = few.ensemble(epochs=1, together=flag)
            while not ensemble.finished:
                ensemble.advance()
            found[name] = weights(ensemble)
        for name, flag in (("torch", False), ("loader", True)):
            plain = PlainLoop(few, start, loader=flag)
            plain.epoch()
            found[name] = plain.weights()
    return {
        name: require_same_weights(f"{LABELS[name]} ({problem})", taken, found["ours"], start)
        for name, taken in found.items()
        if name != "ours"
    }


def measure_checkpoints(settings: Settings) -> dict[str, Any]:
    """Return the seconds of a checkpoint of many deep networks, and the share they take."""
    trained = shrunk(Networks(JUDGED_DEPTH), settings)
    saved = shrunk(SAVED, settings)
    log.info("checkpoints of %s", saved)
    epochs = 10_000 if settings.quick else 1000  # more than are needed
    with ExitStack() as stack:
        one, many = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        seconds, size = save_seconds(saved.ensemble(epochs=1), one, rounds=settings.rounds + 1)
        stack.enter_context(blas_threads(1))
        saves = train_until_saved(
            trained.ensemble(epochs=epochs, evaluate_every=1),
            many,
            threads=settings.threads,
            saves=settings.rounds + 1,
        )
    return {
        "networks": len(saved.members),
        "depth": saved.depth,
        "bytes": size,
        "seconds": seconds[1:],
        "trained": {"networks": len(trained.members), "depth": trained.depth},
        "saves": [seconds for _, seconds in saves],
        "shares": shares(saves),
    }


def judge(
    points: list[dict[str, Any]],
    alone: dict[str, Any],
    checkpoints: dict[str, Any],
) -> list[Target]:
    """Return the targets: of one depth, of one network alone, and of checkpoints."""
    found = [point for point in points if point["depth"] == JUDGED_DEPTH]
    if not found:
        return []
    (point,) = found
    where = f"{point['networks']} networks, width {point['width']}, depth {JUDGED_DEPTH}, float32"
    saved = checkpoints["trained"]
    one = f"one network, {alone['n']:,} samples, width {alone['width']}, depth {alone['depth']}"
    return [
        Target(
            f"rate of the steps over that of their products alone: {where}",
            "at least",
            0.88,
            point["share_of_products"]["ours"]["median"],
        ),
        Target(
            f"PyTorch, one network after another, over ours: {where}",
            "at least",
            1,
            point["ratios"]["torch"]["median"],
            " ×",
        ),
        Target(
            f"rate of the steps over that of their products alone: {one}",
            "at least",
            0.85,
            alone["share_of_products"]["ours"]["median"],
        ),
        *(
            Target(
                f"{name} over ours: {one}", "at least", 1.3, alone["ratios"][key]["median"], " ×"
            )
            for name, key in (("PyTorch", "torch"), ("PyTorch with its DataLoader", "loader"))
        ),
        Target(
            f"checkpoints' share of the time: {saved['networks']} networks, depth "
            f"{saved['depth']}, as many as the rule for long savings allows",
            "at most",
            0.02,
            spread(checkpoints["shares"])["median"],
        ),
    ]


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first = result["points"][0]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"An epoch of {first['networks']} networks of one seed and as many rates: {first['n']:,} "
        "samples in batches of",
        f"{first['batch']}, d {first['d']}, width {first['width']}, ten classes, cross-entropy, "
        "float32; evaluations are not counted.",
        "PyTorch's are modules with automatic differentiation and `torch.optim.SGD`. The products",
        "are those of the same shapes that a step needs, forward, backward and for the gradients,",
        "into memory that is there already; of their two arrangements the faster one is the bound.",
        "Weights are compared after some steps, before anything is timed.",
        "",
        *target_table(result["targets"]),
        *table(
            ("depth", "", "seconds", "steps a second", "over ours", "share of the products' rate"),
            [row for point in result["points"] for row in rows(point)],
        ),
        f"One network alone, of {result['alone']['n']:,} samples, whose steps threads share:",
        "",
        *table(
            ("depth", "", "seconds", "steps a second", "over ours", "share of the products' rate"),
            rows(result["alone"]),
        ),
        *about_checkpoints(result["checkpoints"]),
    ]
    return "\n".join(lines)


def rows(point: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the rows of a depth."""
    steps = point["steps"]
    return [
        (
            point["depth"] if name == "ours" else "",
            label,
            spread_text(spread(point["seconds"][name])),
            f"{spread(steps / s for s in point['seconds'][name])['median']:.3g}",
            spread_text(point["ratios"][name]) if name in point["ratios"] else "1",
            spread_text(point["share_of_products"][name], 2)
            if name in point["share_of_products"]
            else ("the bound" if name == point["products"] else ""),
        )
        for name, label in LABELS.items()
    ]


def about_checkpoints(found: dict[str, Any]) -> list[str]:
    """Return what checkpoints cost, in words."""
    trained = found["trained"]
    return [
        f"A checkpoint of {found['networks']} networks of depth {found['depth']}, "
        f"{found['bytes'] / 1e6:,.0f} MB, takes {spread_text(spread(found['seconds']))} seconds.",
        f"In a training of {trained['networks']} networks of depth {trained['depth']} with the "
        "shortest interval, checkpoints take",
        f"{spread_text(spread(100 * share for share in found['shares']))} % of the time: before "
        "the next, a hundred times as long passes.",
        "",
    ]


def figure(result: dict[str, Any]) -> Figure:
    """Return the share of the products' rate and the time over ours, by depth."""
    points = result["points"]
    depths = [p["depth"] for p in points]
    drawn, (share, over) = figures.canvas(columns=2)
    shares_of = {name: [p["share_of_products"][name] for p in points] for name in COLORS}
    ratios = {name: [p["ratios"][name] for p in points] for name in COLORS if name != "ours"}
    for ax, lines in ((share, shares_of), (over, ratios)):
        for name, spreads in lines.items():
            figures.spread_line(ax, depths, spreads, color=COLORS[name])
        ax.set_xlabel(plotting.DEPTH)
        ax.set_xticks(depths)
    share.set_ylim(0, 1.05 * max(1, *(s["median"] for line in shares_of.values() for s in line)))
    share.set_ylabel("share of the products' rate")
    figures.target_line(share, 0.88)
    figures.note(share, f"asked for at depth {JUDGED_DEPTH}")
    over.set_ylim(bottom=0)
    over.set_ylabel("seconds over ours")
    figures.target_line(over, 1)
    figures.note(over, f"asked of PyTorch at depth {JUDGED_DEPTH}")
    for ax, lines in ((share, shares_of), (over, ratios)):
        ends = [
            (depths[-1], spreads[-1]["median"], SHORT[name], COLORS[name])
            for name, spreads in lines.items()
        ]
        label_line_ends(ax, ends, fontsize=7)
    return drawn

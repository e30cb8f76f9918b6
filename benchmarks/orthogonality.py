"""Angles between the gradients of a layer's neurons, against gradients that are written out."""

import logging
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks import figures, machine
from benchmarks.problem import GEMM_SIZE, gemm_rates, require_near
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.plotting import label_line_ends
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, layers, on_span
from ntk_conditioning.transition.gradients import gradient_products

TITLE = "Angles between neurons' gradients"
WIDTHS = (64, 128, 256, 512, 1000)
WIDEST_EXPLICIT = 256
JUDGED_WIDTH = 1000
SAMPLES, DIM, LAYER = 20, 3072, 3
LABELS = {"ours": "inner products by recursion", "explicit": "explicit gradients"}
COLORS = {"ours": figures.OURS, "explicit": "#D55E00"}
SAME = 1e-12
log = logging.getLogger("benchmarks")


def ours(net: FeedforwardNet, x: Tensor) -> float:
    """Return mean |cos| of all pairs of neurons of the last hidden layer, over the samples."""
    found = []
    for sample in x:
        *_, products = gradient_products(net, sample)
        found.append(mean_cosine(products))
    return float(np.mean(found))


def explicit(net: FeedforwardNet, x: Tensor) -> float:
    """Return the same from the gradients (m, p) of all neurons, of one batched backward pass."""
    found = []
    for sample in x:
        weights = [weight.clone().requires_grad_() for weight in net.weights]
        _, sums = layers(net.with_weights(weights), sample[None])
        z = sums[LAYER - 1][0]
        below = weights[:LAYER]
        each = torch.eye(len(z), dtype=z.dtype)
        parts = torch.autograd.grad(z, below, each, is_grads_batched=True)
        rows = torch.cat([part.flatten(start_dim=1) for part in parts], dim=1)
        found.append(mean_cosine(rows @ rows.T))
    return float(np.mean(found))


def mean_cosine(products: Tensor) -> float:
    """Return mean |cos| of all pairs from the inner products (m, m)."""
    inverse = products.diagonal().rsqrt()
    cosines = products.mul_(inverse).mul_(inverse[:, None]).fill_diagonal_(0.0).abs_()
    m = len(products)
    return float(cosines.sum()) / (m * (m - 1))


def measure(settings: Settings) -> dict[str, Any]:
    """Return times by width.

    Raises:
        DifferentResultError: if the two ways find other angles.
    """
    rates = gemm_rates(size=256 if settings.quick else GEMM_SIZE, rounds=settings.rounds)
    dim, widths = (24, (8, 16)) if settings.quick else (DIM, WIDTHS)
    points = [measure_width(width, dim, settings) for width in widths]
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(judge(points)),
        "points": points,
    }


def measure_width(width: int, dim: int, settings: Settings) -> dict[str, Any]:
    """Return the times of one width; both ways get the network on the samples' span."""
    rng = np.random.default_rng(0)
    whole = draw_network(dim, [width] * LAYER, activation="tanh", generator=rng)
    net, x = on_span(whole, torch.from_numpy(rng.standard_normal((SAMPLES, dim))))
    log.info("width %d", width)
    methods = {"ours": stopwatch(lambda: ours(net, x))}
    if width <= WIDEST_EXPLICIT:
        difference = abs(explicit(net, x) / ours(net, x) - 1)
        require_near(f"mean cosines at width {width}", difference, SAME)
        methods["explicit"] = stopwatch(lambda: explicit(net, x))
    seconds = interleaved(methods, rounds=settings.rounds)
    return {
        "width": width,
        "samples": SAMPLES,
        "dim": dim,
        "weights": net.parameters,
        "seconds": seconds,
        "ratio": ratio(seconds["explicit"], seconds["ours"]) if len(seconds) > 1 else None,
    }


def judge(points: list[dict[str, Any]]) -> list[Target]:
    """Return the targets: the time at one width, the ratio at the widest that has one."""
    known = [point for point in points if point["ratio"]]
    judged = [point for point in points if point["width"] == JUDGED_WIDTH]
    if not judged:
        return []
    what = f"layer {LAYER}, {SAMPLES} samples"
    seconds = spread(judged[0]["seconds"]["ours"])["median"]
    over = known[-1]["ratio"]["median"]
    return [
        Target(f"time: width {JUDGED_WIDTH:,}, {what}", "at most", 2, seconds, " s"),
        Target(f"ratio: width {known[-1]['width']:,}, {what}", "at least", 100, over, " ×"),
    ]


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first = result["points"][0]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"Mean |cos| between the gradients of all pairs of neurons of hidden layer {LAYER}, at "
        f"{first['samples']} samples",
        f"of {first['dim']:,} features, on their span; tanh, all layers of one width, float64.",
        "",
        *target_table(result["targets"]),
        *table(
            ("width", "weights", "seconds", "by explicit gradients", "over ours"),
            [
                (
                    f"{p['width']:,}",
                    f"{p['weights']:,}",
                    spread_text(spread(p["seconds"]["ours"])),
                    spread_text(spread(p["seconds"]["explicit"])) if p["ratio"] else "",
                    spread_text(p["ratio"]) if p["ratio"] else "",
                )
                for p in result["points"]
            ],
        ),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return the seconds by width."""
    points = result["points"]
    drawn, (ax,) = figures.canvas(columns=1)
    ends = []
    for name, label in LABELS.items():
        known = [p for p in points if name in p["seconds"]]
        spreads = [spread(p["seconds"][name]) for p in known]
        figures.spread_line(ax, [p["width"] for p in known], spreads, color=COLORS[name])
        ends.append((known[-1]["width"], spreads[-1]["median"], label, COLORS[name]))
    ax.set_yscale("log")
    ax.set_ylabel("seconds")
    figures.plain_ticks(ax, [p["width"] for p in points], "width m")
    label_line_ends(ax, ends)
    return drawn

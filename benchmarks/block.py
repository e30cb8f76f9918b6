"""One kernel block against torch.func, neural-tangents and nngeometry."""

import logging
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks import figures, machine
from benchmarks.environments import PeerUnavailableError
from benchmarks.module_problem import ModuleProblem
from benchmarks.problem import GEMM_SIZE, Problem, gemm, gemm_rates, require_same_kernel
from benchmarks.report import Target, number, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from benchmarks.workers import PEERS
from ntk_conditioning.kernels import empirical
from ntk_conditioning.spectra.conditioning import conditioning

TITLE = "One kernel block against the peers"
OURS = "this project"
log = logging.getLogger("benchmarks")


@dataclass(frozen=True)
class Case:
    """A problem, the peers that solve it and how many times faster we are to be, by peer."""

    problem: Problem | ModuleProblem
    peers: tuple[str, ...]
    targets: dict[str, float]
    conditioned: bool = False


SLOW = (
    "torch_func",
    "torch_func_products",
    "neural_tangents_products",
    "modules_torch_func",
    "modules_neural_tangents",
)
STRONG = ("neural_tangents", "nngeometry")
CASES = (
    Case(
        Problem(512, 10, "float32"),
        ("torch_func", *STRONG),
        {"torch_func": 120, "neural_tangents": 1.3, "nngeometry": 1.7},
    ),
    Case(Problem(2000, 10), STRONG, {"neural_tangents": 2.5, "nngeometry": 1.9}),
    Case(Problem(512, 10), STRONG, {}, conditioned=True),
    Case(Problem(2000, 10, "float32"), STRONG, {}),
    Case(Problem(512, 1, "float32"), ("torch_func", *STRONG), {}),
    # So slow that only this size can be waited for.
    Case(
        Problem(64, 3, "float32"),
        ("torch_func_products", "neural_tangents_products"),
        {},
    ),
)
QUICK = (
    Case(Problem(24, 2, "float64", d=8, width=16), ("torch_func", "neural_tangents"), {}, True),
)


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, and the ratios to ours."""
    size = 256 if settings.quick else GEMM_SIZE
    asked = QUICK if settings.quick else CASES
    rates = gemm_rates(size=size, rounds=settings.rounds)
    cases = [measure_case(case, settings, gemm_size=size) for case in asked]
    targets = [
        target for case, found in zip(asked, cases, strict=True) for target in judge(case, found)
    ]
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(targets),
        "cases": cases,
    }


def judge(case: Case, found: dict[str, Any]) -> list[Target]:
    """Return the targets of a case beside what was found."""
    return [
        Target(
            what=f"{PEERS[peer].label}, over ours: {case.problem}",
            sense="at least",
            bound=bound,
            measured=found["ratios"].get(peer, {}).get("median"),
            unit=" ×",
        )
        for peer, bound in case.targets.items()
    ]


def measure_case(
    case: Case,
    settings: Settings,
    *,
    gemm_size: int,
    ntk: Callable[[Any, Tensor], Tensor] = empirical.ntk,
) -> dict[str, Any]:
    """Return the times of one case, with ``ntk`` as ours.

    Raises:
        DifferentResultError: if a peer's kernel is another one.
    """
    problem = case.problem
    log.info("%s", problem)
    network, x = problem.network(), problem.data()
    product = gemm(problem.dtype, size=gemm_size)
    product()
    kernel = ntk(network, x).numpy()
    methods = {"gemm": stopwatch(product), "ours": stopwatch(lambda: ntk(network, x))}
    if case.conditioned:
        methods["ours_conditioned"] = stopwatch(lambda: conditioning(ntk(network, x).numpy()))
    missing, differences, versions = {}, {}, {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder) / "problem.npz"
        problem.save(file)
        for name in case.peers:
            try:
                worker = stack.enter_context(PEERS[name].start(file, settings))
            except PeerUnavailableError as error:
                log.warning("%s is left out: %s", PEERS[name].label, error)
                missing[name] = str(error)
                continue
            differences[name] = require_same_kernel(PEERS[name].label, worker.result(), kernel)
            versions[name] = worker.versions
            methods[name] = worker.seconds
        # Short calls vary more, and can be had more often.
        most = dict.fromkeys(SLOW, settings.rounds)
        seconds = interleaved(methods, rounds=3 * settings.rounds, most=most)
    ours = seconds["ours"]
    share = problem.flops / (2 * gemm_size**3)
    return {
        "problem": asdict(problem),
        "seconds": seconds,
        "ratios": {
            name: ratio(taken, ours)
            for name, taken in seconds.items()
            if name not in ("gemm", "ours")
        },
        "fraction_of_gemm_rate": ratio(seconds["gemm"], ours, factor=share),
        "differences": differences,
        "versions": versions,
        "missing": missing,
    }


def label(name: str) -> str:
    """Return what a method is called in a table."""
    own = {"ours": OURS, "ours_conditioned": f"{OURS}, with the condition number"}
    return own.get(name) or PEERS[name].label


def heading(problem: dict[str, Any]) -> str:
    """Return a problem in words."""
    return (
        f"n {problem['n']:,}, d {problem['d']}, width {problem['width']}, depth "
        f"{problem['depth']}, {problem['dtype']}"
    )


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        "Each peer stands by in a process of its own, compiled and warm, on the same cores and",
        "with the same weights and data. A round calls every method in turn; a ratio is the median",
        "(least … largest) of the rounds' ratios. The kernels are compared before anything is",
        "timed: in float64 entry by entry, relative to the largest; in float32, where one sign",
        "that rounding changes moves a whole row, by their extreme eigenvalues.",
        "",
        *target_table(result["targets"]),
    ]
    for case in result["cases"]:
        lines += case_lines(case, heading(case["problem"]))
    return "\n".join([*lines, *peers_line(result)])


def case_lines(case: dict[str, Any], title: str) -> list[str]:
    """Return the times of one case under its title."""
    lines = [f"**{title}**", ""]
    lines += table(
        ("", "seconds", "over ours", "difference"),
        [
            (
                label(name),
                spread_text(spread(taken)),
                spread_text(case["ratios"][name]) if name in case["ratios"] else "1",
                ", ".join(
                    f"{what} {value:.0e}"
                    for what, value in case["differences"].get(name, {}).items()
                ),
            )
            for name, taken in case["seconds"].items()
            if name != "gemm"
        ],
    )
    fraction = spread_text(case["fraction_of_gemm_rate"], 2)
    lines += [f"Ours: {fraction} of the matrix product's rate.", ""]
    missing = case["missing"].items()
    return lines + [f"{PEERS[name].label} was not measured: {why}.\n" for name, why in missing]


def peers_line(result: dict[str, Any]) -> list[str]:
    """Return the versions of the peers' packages, but for those that are ours as well."""
    versions = {
        k: v
        for case in result["cases"]
        for v in case["versions"].values()
        for k, v in v.items()
        if k not in result["machine"]["versions"]
    }
    if not versions:
        return []
    return ["Peers: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".", ""]


def figure(result: dict[str, Any]) -> Figure:
    """Return the times of all cases as bars, each with its multiple of ours."""
    return draw_cases(
        result["cases"],
        [
            f"n = {problem['n']:,}, depth {problem['depth']}, {problem['dtype']}"
            for problem in (case["problem"] for case in result["cases"])
        ],
    )


def draw_cases(cases: list[dict[str, Any]], titles: list[str]) -> Figure:
    columns = min(2, len(cases))
    drawn, axes = figures.canvas(rows=-(-len(cases) // columns), columns=columns, height=1.9)
    for ax, case, title in zip(axes, cases, titles, strict=False):
        draw_case(ax, case)
        ax.set_title(title)
    for ax in axes[len(cases) :]:
        ax.set_axis_off()
    return drawn


def draw_case(ax: Axes, case: dict[str, Any]) -> None:
    names = [name for name in case["seconds"] if name not in ("gemm", "ours_conditioned")]
    middles = [float(np.median(case["seconds"][name])) for name in names]
    for row, (name, middle) in enumerate(zip(names, middles, strict=True)):
        low, high = min(case["seconds"][name]), max(case["seconds"][name])
        ax.plot([low, high], [row, row], color=figures.COLORS[name], linewidth=2.4)
        ax.plot(middle, row, "o", color=figures.COLORS[name], markersize=5)
        times = case["ratios"].get(name)
        text = f"{middle:.3g} s" + (f"   {number(times['median'])} ×" if times else "")
        ax.annotate(
            text, (high, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=7
        )
    # Room for the words beside the slowest.
    ax.set_xlim(min(middles) / 1.6, max(middles) * (max(middles) / min(middles)) ** 0.5 * 3)
    figures.plain_seconds(ax)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(
        range(len(names)), [label(name).replace("`", "").replace(", ", ",\n") for name in names]
    )
    ax.tick_params(axis="y", length=0)

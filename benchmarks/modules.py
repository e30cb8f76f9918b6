"""The kernels of convolutional, residual and attention networks against the peers."""

import logging
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from benchmarks import block, machine
from benchmarks.block import Case
from benchmarks.memory import Peak, peak
from benchmarks.module_problem import TITLES, ModuleProblem
from benchmarks.problem import GEMM_SIZE, Problem, gemm_rates, require_same_kernel
from benchmarks.report import Target, number, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, stopwatch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.kernels.modules import ntk

TITLE = "The kernel of any network against the peers"
log = logging.getLogger("benchmarks")

TORCH_FUNC, NEURAL_TANGENTS = "modules_torch_func", "modules_neural_tangents"
NNGEOMETRY = "modules_nngeometry"
CNN = ModuleProblem("cnn", 512)
RESNET = ModuleProblem("resnet20", 512, "float32")
VIT = ModuleProblem("vit", 256, "float32")
CASES = (
    Case(CNN, (NNGEOMETRY,), {NNGEOMETRY: 4}),
    # What torch.func and neural-tangents can be waited for.
    Case(
        ModuleProblem("cnn", 64),
        (TORCH_FUNC, NEURAL_TANGENTS, NNGEOMETRY),
        {TORCH_FUNC: 12, NEURAL_TANGENTS: 20},
    ),
    Case(RESNET, (NNGEOMETRY, TORCH_FUNC), {NNGEOMETRY: 3}),
    Case(VIT, (TORCH_FUNC,), {TORCH_FUNC: 10}),
)
QUICK = (Case(ModuleProblem("cnn", 4), (TORCH_FUNC, NEURAL_TANGENTS), {}),)
#: The share of the product's rate that is asked for, by problem.
RATE = {CNN: 0.3}

#: Bytes beside the kernel that are allowed, by problem.
MEMORY = {CNN: 1e9, RESNET: 1e9, VIT: 1e9, ModuleProblem("cnn", 4000): 1.5e9}
LONG = {ModuleProblem("resnet20", 10_000, "float32"): 1e9}
QUICK_MEMORY = {ModuleProblem("cnn", 4): 1e9}

#: The fully connected network, by our common call and by the direct one.
DENSE = Problem(512, 10, "float32")
QUICK_DENSE = Problem(24, 2, d=8, width=16)
COMMON_OVER_DIRECT = 1.02


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, the ratios to ours, and our peaks of memory."""
    size = 256 if settings.quick else GEMM_SIZE
    asked = QUICK if settings.quick else CASES
    bounds = QUICK_MEMORY if settings.quick else MEMORY | (LONG if settings.long else {})
    rates = gemm_rates(size=size, rounds=settings.rounds)
    cases = [block.measure_case(case, settings, gemm_size=size, ntk=ntk) for case in asked]
    dense = measure_dense(QUICK_DENSE if settings.quick else DENSE, settings)
    peaks = [measure_memory(problem, settings) for problem in bounds]
    targets = [
        target
        for case, found in zip(asked, cases, strict=True)
        for target in (*block.judge(case, found), *judge_rate(case.problem, found))
    ]
    targets.append(
        Target(
            what=f"fully connected, common call over direct: {dense['problem']}",
            sense="at most",
            bound=COMMON_OVER_DIRECT,
            measured=dense["ratio"]["median"],
            unit=" ×",
        )
    )
    for (problem, bound), found in zip(bounds.items(), peaks, strict=True):
        beside = found["beside_bytes"]
        targets.append(
            Target(
                what=f"memory beside the kernel: {problem}",
                sense="at most",
                bound=bound / 1e9,
                measured=None if beside is None else beside / 1e9,
                unit=" GB",
            )
        )
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(targets),
        "cases": cases,
        "dense": dense,
        "memory": peaks,
    }


def judge_rate(problem: Any, found: dict[str, Any]) -> list[Target]:
    """Return the target of the share of the product's rate, if there is one."""
    if problem not in RATE:
        return []
    return [
        Target(
            what=f"share of the matrix product's rate: {problem}",
            sense="at least",
            bound=RATE[problem],
            measured=found["fraction_of_gemm_rate"]["median"],
        )
    ]


def measure_dense(problem: Problem, settings: Settings) -> dict[str, Any]:
    """Return the times of a fully connected network, by the common call and by the direct one.

    Raises:
        DifferentResultError: if the kernels differ.
    """
    mlp, x = problem.network(), problem.data()
    methods = {"direct": empirical.ntk, "common": ntk}
    direct, common = (method(mlp, x).numpy() for method in methods.values())
    require_same_kernel("the common call", common, direct)
    timed = {name: stopwatch(lambda f=method: f(mlp, x)) for name, method in methods.items()}
    # A difference of 2 % needs more rounds than one of several times.
    seconds = interleaved(timed, rounds=5 * settings.rounds)
    return {
        "problem": str(problem),
        "seconds": seconds,
        "ratio": ratio(seconds["common"], seconds["direct"]),
    }


def measure_memory(problem: ModuleProblem, settings: Settings) -> dict[str, Any]:
    """Return the peak of memory beside the kernel, and the seconds, of one call in a process."""
    log.info("memory: %s", problem)
    found: Peak | None = peak("module_ntk", threads=settings.threads, **asdict(problem))
    return {
        "problem": str(problem),
        "kernel_bytes": problem.kernel_bytes,
        "beside_bytes": None if found is None else found.growth - problem.kernel_bytes,
        "seconds": None if found is None else found.seconds,
    }


def heading(problem: dict[str, Any]) -> str:
    """Return a problem in words."""
    return f"{TITLES[problem['name']]}, n {problem['n']:,}, {problem['dtype']}"


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    dense = result["dense"]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        "Networks of one output on Gaussian images 3 × 32 × 32: the CNN of PyTorch's tutorial on",
        "the NTK (three convolutions of 32 channels), ResNet-20 with batch norm in evaluation, and",
        "a vision transformer of 4 blocks, 128 wide, on 64 patches. Measured and compared as in",
        "the first section. The share of the matrix product's rate counts both passes and the",
        "cheaper way of every layer, see `module_problem.py`.",
        "",
        *target_table(result["targets"]),
    ]
    for case in result["cases"]:
        lines += block.case_lines(case, heading(case["problem"]))
    lines += [
        f"Fully connected ({dense['problem']}): the common call takes "
        f"{spread_text(dense['ratio'])} times as long as the direct one.",
        "",
        "Peak memory of one call in a process of its own, and its time:",
        "",
        *table(
            ("", "kernel, GB", "beside it, GB", "seconds"),
            [
                (
                    row["problem"],
                    number(row["kernel_bytes"] / 1e9),
                    "" if row["beside_bytes"] is None else number(row["beside_bytes"] / 1e9),
                    "" if row["seconds"] is None else number(row["seconds"]),
                )
                for row in result["memory"]
            ],
        ),
    ]
    return "\n".join([*lines, *block.peers_line(result)])


def figure(result: dict[str, Any]) -> Figure:
    """Return the times of all cases as bars, each with its multiple of ours."""
    cases = result["cases"]
    return block.draw_cases(cases, [heading(case["problem"]) for case in cases])

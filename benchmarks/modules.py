"""The kernels of convolutional, residual and attention networks against the peers."""

import logging
from typing import Any

import numpy as np

from benchmarks import block
from benchmarks.block import Case
from benchmarks.memory import peak_on
from benchmarks.problem import ModuleProblem, gemm_rates
from benchmarks.report import machine_facts, machine_sentence, number, table
from benchmarks.settings import Settings
from ntk_conditioning import ntk

TITLE = "The kernel of any network against the peers"
log = logging.getLogger("benchmarks")

TORCH_FUNC, NEURAL_TANGENTS = "modules_torch_func", "modules_neural_tangents"
NNGEOMETRY = "modules_nngeometry"
CNN = ModuleProblem("cnn", 512)
RESNET = ModuleProblem("resnet20", 512, "float32")
VIT = ModuleProblem("vit", 256, "float32")
CASES = (
    Case(CNN, (NNGEOMETRY,)),
    # torch.func and neural-tangents take too long for more images.
    Case(ModuleProblem("cnn", 64), (TORCH_FUNC, NEURAL_TANGENTS, NNGEOMETRY)),
    Case(RESNET, (NNGEOMETRY, TORCH_FUNC)),
    Case(VIT, (TORCH_FUNC,)),
)
QUICK = (
    Case(ModuleProblem("cnn", 4), (TORCH_FUNC, NEURAL_TANGENTS, NNGEOMETRY)),
    Case(ModuleProblem("resnet20", 4), (TORCH_FUNC, NNGEOMETRY)),
    Case(ModuleProblem("vit", 4), (TORCH_FUNC,)),
)

#: Whose peak of memory is measured.
MEMORY = (CNN, RESNET, VIT, ModuleProblem("cnn", 4000))


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, the ratios to ours, and our peaks of memory."""
    quick = settings.quick
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "cases": [
            block.measure_case(case, settings, ours=ntk) for case in (QUICK if quick else CASES)
        ],
        "memory": [
            measure_memory(problem, settings)
            for problem in ((ModuleProblem("cnn", 4),) if quick else MEMORY)
        ],
    }


def measure_memory(problem: ModuleProblem, settings: Settings) -> dict[str, Any]:
    """Return the peak of memory beside the kernel, and the seconds, of one call in a process."""
    log.info("memory: %s", problem)
    kernel_bytes = problem.n**2 * np.dtype(problem.dtype).itemsize
    measured = peak_on(ntk, problem, small=4, threads=settings.threads)
    return {
        "problem": str(problem),
        "kernel_bytes": kernel_bytes,
        "beside_bytes": None if measured is None else measured.growth - kernel_bytes,
        "seconds": None if measured is None else measured.seconds,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        "Networks of one output on Gaussian images 3 × 32 × 32: the CNN of PyTorch's tutorial on",
        "the NTK (three convolutions of 32 channels), ResNet-20 with batch norm in evaluation, and",
        "a vision transformer of 4 blocks, 128 wide, on 64 patches. Measured and compared as in",
        "the first section.",
        "",
    ]
    for case in result["cases"]:
        lines += block.case_lines(case, ModuleProblem(**case["problem"]))
    rows = [
        (
            row["problem"],
            number(row["kernel_bytes"] / 1e9),
            "" if row["beside_bytes"] is None else number(row["beside_bytes"] / 1e9),
            "" if row["seconds"] is None else number(row["seconds"]),
        )
        for row in result["memory"]
    ]
    lines += [
        "Peak memory of one call in a process of its own, and its time:",
        "",
        *table(("", "kernel, GB", "beside it, GB", "seconds"), rows),
    ]
    return "\n".join([*lines, *block.peers_line(result)])

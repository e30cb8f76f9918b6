"""Products with the kernel of samples too many to form it, against torch.func and curvlinops."""

from typing import Any

import torch
from torch import Tensor

from benchmarks import block
from benchmarks.block import Case
from benchmarks.memory import peak_on
from benchmarks.problem import ModuleProblem, Problem, gemm_rates
from benchmarks.report import machine_facts, machine_sentence
from benchmarks.settings import Settings
from ntk_conditioning import ntk_operator

TITLE = "Products with the kernel of a whole dataset"
NAMES = ("products_torch_func", "products_curvlinops")
CASES = (Case(Problem(10_000, 5), NAMES), Case(ModuleProblem("resnet20", 1000), NAMES))
QUICK = (Case(Problem(24, 2, d=8, width=16), NAMES),)
WHOLE = Problem(60_000, 5)


def product(network: Any, x: Tensor) -> Tensor:
    """Return K v (n,) for the vector of cosines of 0, 1, 2, …"""
    return ntk_operator(network, x) @ torch.cos(torch.arange(len(x), dtype=x.dtype))


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, the ratios to ours, and the memory of all of MNIST."""
    cases = QUICK if settings.quick else CASES
    whole = QUICK[0].problem if settings.quick else WHOLE
    memory = peak_on(product, whole, small=8, threads=settings.threads)
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "cases": [block.measure_case(case, settings, ours=product) for case in cases],
        "whole": str(whole),
        "memory": memory and {"bytes": memory.growth, "seconds": memory.seconds},
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        "J (Jᵀ v) for a vector v, with the operator's checks of the network. Peers take batches of",
        "250 samples. Measured and compared as in the first section.",
        "",
    ]
    for case in result["cases"]:
        kind = ModuleProblem if "name" in case["problem"] else Problem
        lines += block.case_lines(case, kind(**case["problem"]))
    if memory := result["memory"]:
        gigabytes, seconds = memory["bytes"] / 1e9, memory["seconds"]
        lines += [
            f"{result['whole']}: a product adds {gigabytes:.2f} GB to what the samples take, and "
            f"needs {seconds:.0f} s.",
            "",
        ]
    return "\n".join([*lines, *block.peers_line(result)])

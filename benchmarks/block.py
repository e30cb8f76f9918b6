"""One kernel block against torch.func, neural-tangents and nngeometry."""

import logging
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.problem import ModuleProblem, Problem, gemm_rates, require_same_kernel
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratios, spread, stopwatch
from benchmarks.workers import PEERS, PeerUnavailableError
from ntk_conditioning.kernels import empirical

TITLE = "One kernel block against the peers"
log = logging.getLogger("benchmarks")


@dataclass(frozen=True)
class Case:
    """A problem, and the peers that solve it."""

    problem: Problem | ModuleProblem
    peers: tuple[str, ...]


SLOW = ("torch_func", "modules_torch_func", "modules_neural_tangents")
FAST = ("neural_tangents", "nngeometry")
CASES = (
    Case(Problem(512, 10, "float32"), ("torch_func", *FAST)),
    Case(Problem(2000, 10), FAST),
    Case(Problem(512, 10), FAST),
    Case(Problem(2000, 10, "float32"), FAST),
    Case(Problem(512, 1, "float32"), ("torch_func", *FAST)),
)
QUICK = (Case(Problem(24, 2, d=8, width=16), ("torch_func", *FAST)),)


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, and the ratios to ours."""
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "cases": [measure_case(case, settings) for case in (QUICK if settings.quick else CASES)],
    }


def measure_case(
    case: Case, settings: Settings, *, ours: Callable[[Any, Tensor], Tensor] = empirical.ntk
) -> dict[str, Any]:
    """Return the times of one case, with ``ours`` as our kernel, or product.

    Raises:
        DifferentResultError: if a peer's kernel differs from ours.
    """
    problem = case.problem
    log.info("%s", problem)
    network, x = problem.network(), problem.data()
    kernel = ours(network, x).numpy()
    methods = {"ours": stopwatch(lambda: ours(network, x))}
    missing, differences, versions = {}, {}, {}
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "problem.npz"
        problem.save(file)
        for name in case.peers:
            try:
                worker = stack.enter_context(PEERS[name].start(file, settings))
            except PeerUnavailableError as error:
                log.warning("%s is left out: %s", PEERS[name].label, error)
                missing[name] = str(error)
                continue
            differences[name] = require_same_kernel(
                PEERS[name].label, worker.result().reshape(kernel.shape), kernel
            )
            versions[name] = worker.versions
            methods[name] = worker.seconds
        # Short calls vary more, and can be repeated more often.
        most = dict.fromkeys(SLOW, settings.rounds)
        seconds = interleaved(methods, rounds=3 * settings.rounds, most=most)
    return {
        "problem": asdict(problem),
        "seconds": seconds,
        "ratios": ratios(seconds, "ours"),
        "differences": differences,
        "versions": versions,
        "missing": missing,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        "Each peer waits in a process of its own, compiled and warm, on the same cores and with",
        "the same weights and data. A round calls every method in turn; a ratio is the median",
        "(least … largest) of the rounds' ratios. The kernels are compared before anything is",
        "timed: in float64 entry by entry, relative to the largest; in float32, where one sign",
        "that rounding changes moves a whole row, by their extreme eigenvalues.",
        "",
    ]
    for case in result["cases"]:
        lines += case_lines(case, Problem(**case["problem"]))
    return "\n".join([*lines, *peers_line(result)])


def case_lines(case: dict[str, Any], title: object) -> list[str]:
    """Return the times of one case under its title."""
    rows = [
        (
            "this project" if name == "ours" else PEERS[name].label,
            spread_text(spread(taken)),
            spread_text(case["ratios"][name]) if name in case["ratios"] else "1",
            ", ".join(
                f"{what} {value:.0e}" for what, value in case["differences"].get(name, {}).items()
            ),
        )
        for name, taken in case["seconds"].items()
        if name != "gemm"
    ]
    missing = case["missing"].items()
    return [
        f"**{title}**",
        "",
        *table(("", "seconds", "over ours", "difference"), rows),
        *(f"{PEERS[name].label} was not measured: {why}.\n" for name, why in missing),
    ]


def peers_line(result: dict[str, Any]) -> list[str]:
    """Return the versions of the peers' packages."""
    packages = [versions for case in result["cases"] for versions in case["versions"].values()]
    texts = sorted({f"{name} {number}" for v in packages for name, number in v.items()})
    return [f"Peers: {', '.join(texts)}.", ""] if texts else []

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
from ntk_conditioning.spectra.conditioning import conditioning

TITLE = "One kernel block against the peers"
OURS = {"ours": "this project", "ours_conditioned": "this project, with the condition number"}
log = logging.getLogger("benchmarks")


@dataclass(frozen=True)
class Case:
    """A problem, and the peers that solve it."""

    problem: Problem | ModuleProblem
    peers: tuple[str, ...]
    conditioned: bool = False


SLOW = (
    "torch_func",
    "torch_func_products",
    "neural_tangents_products",
    "modules_torch_func",
    "modules_neural_tangents",
)
FAST = ("neural_tangents", "nngeometry")
CASES = (
    Case(Problem(512, 10, "float32"), ("torch_func", *FAST)),
    Case(Problem(2000, 10), FAST),
    Case(Problem(512, 10), FAST, conditioned=True),
    Case(Problem(2000, 10, "float32"), FAST),
    Case(Problem(512, 1, "float32"), ("torch_func", *FAST)),
    # These take too long for any larger size.
    Case(Problem(64, 3, "float32"), ("torch_func_products", "neural_tangents_products")),
)
QUICK = (
    Case(Problem(24, 2, d=8, width=16), ("torch_func", "torch_func_products", *FAST), True),
    Case(Problem(24, 2, d=8, width=16), ("neural_tangents_products",)),
)


def measure(settings: Settings) -> dict[str, Any]:
    """Return times of all cases, by round, and the ratios to ours."""
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "cases": [measure_case(case, settings) for case in (QUICK if settings.quick else CASES)],
    }


def measure_case(
    case: Case, settings: Settings, *, ntk: Callable[[Any, Tensor], Tensor] = empirical.ntk
) -> dict[str, Any]:
    """Return the times of one case, with ``ntk`` as ours.

    Raises:
        DifferentResultError: if a peer's kernel differs from ours.
    """
    problem = case.problem
    log.info("%s", problem)
    network, x = problem.network(), problem.data()
    kernel = ntk(network, x).numpy()
    methods = {"ours": stopwatch(lambda: ntk(network, x))}
    if case.conditioned:
        methods["ours_conditioned"] = stopwatch(lambda: conditioning(ntk(network, x).numpy()))
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
            differences[name] = require_same_kernel(PEERS[name].label, worker.result(), kernel)
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


def heading(problem: dict[str, Any]) -> str:
    """Return a problem in words."""
    return (
        f"n {problem['n']:,}, d {problem['d']}, width {problem['width']}, depth "
        f"{problem['depth']}, {problem['dtype']}"
    )


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
        lines += case_lines(case, heading(case["problem"]))
    return "\n".join([*lines, *peers_line(result)])


def case_lines(case: dict[str, Any], title: str) -> list[str]:
    """Return the times of one case under its title."""
    rows = [
        (
            OURS.get(name) or PEERS[name].label,
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
    """Return the versions of the packages that only peers use."""
    versions = {
        package: number
        for case in result["cases"]
        for packages in case["versions"].values()
        for package, number in packages.items()
        if package not in result["machine"]["versions"]
    }
    if not versions:
        return []
    return ["Peers: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".", ""]

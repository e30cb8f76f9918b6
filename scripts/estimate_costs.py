"""Estimate what a run costs: core-hours, GPU-hours, the longest job and the memory.

The estimate is fitted to the benchmark files of earlier jobs, in LOGS/{run}/{rule}/, as far as the
cells that they computed are in RESULTS/{run}/. Without any it uses the package's own numbers. The
run with the newest benchmark is also predicted from all others, to show how far off that is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntk_conditioning.files import write_text
from ntk_workflow.cli import Parser, run_main
from ntk_workflow.estimate import report
from ntk_workflow.provenance.finished_jobs import Benchmark, read_benchmarks
from ntk_workflow.resources import Model, Planned, Work, planned_costs, predicted_costs


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--jobs",
        type=job_groups,
        required=True,
        help="planned jobs, a list in JSON: rule, jobs, flops, memory, gpu, threads of each group",
    )
    parser.add_argument("--results", type=Path, default="results", help="folder of all runs")
    parser.add_argument("--logs", type=Path, default="logs", help="folder of all runs' logs")
    parser.add_argument("--output", type=Path, help="file for the same numbers (.json)")
    args = parser.parse_args(argv)

    benchmarks, unusable = read_benchmarks(args.logs, args.results)
    model = Model().fit(benchmark.observation for benchmark in benchmarks)
    estimate = planned_costs(model, args.jobs)
    comparison = compared(benchmarks)
    lines = report(model, estimate, comparison, len(benchmarks), unusable)
    sys.stdout.write("\n".join(lines) + "\n")
    if args.output:
        text = json.dumps({"estimate": estimate, "comparison": comparison}, indent=1)
        write_text(args.output, text + "\n")
    return 0


def job_groups(text: str) -> list[Planned]:
    """Return groups of equal jobs; a type for `Parser.add_argument`."""
    numbers = {"jobs", "flops", "memory", "gpu", "threads"}
    try:
        groups = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(groups, list) or any(
        not isinstance(group, dict)
        or group.keys() != numbers | {"rule"}
        or not all(isinstance(group[key], int | float) for key in numbers)
        for group in groups
    ):
        raise argparse.ArgumentTypeError("not a list of objects with a rule and its numbers")
    return [
        Planned(
            group["rule"],
            Work(group["flops"], group["memory"]),
            *(group[key] for key in ("jobs", "gpu", "threads")),
        )
        for group in groups
    ]


def compared(benchmarks: Sequence[Benchmark]) -> dict[str, Any] | None:
    """Return what the run with the newest benchmark took, and what the others predict for it."""
    if not benchmarks:
        return None
    last = max(benchmarks, key=lambda benchmark: benchmark.time).run
    own = [benchmark.observation for benchmark in benchmarks if benchmark.run == last]
    others = [benchmark.observation for benchmark in benchmarks if benchmark.run != last]
    rules = predicted_costs(Model().fit(others), own)
    return {"run": last, "jobs": len(others), "rules": rules}


if __name__ == "__main__":
    sys.exit(main())

"""How long a user waits: commands of the README in a fresh clone, and where the demo's time goes.

python -m benchmarks.minutes STEP... [--folder FOLDER]

Each step runs in a fresh clone of the last commit, or in the FOLDER of an earlier call, whose
environment is taken again. Times are kept in results/minutes.json, the last three of each step on
one processor, and another one begins anew; the section of README.md has their medians. Measure on a
machine that does nothing else.
"""

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from ntk_conditioning.files import write_text

ROOT, RESULT = report.HERE.parent, report.HERE / "results/minutes.json"
TITLE = "What a user waits for"
#: Where a run leaves what the next one would find.
TRACES = ("results/demo", "results/first_look", "logs", "data", ".snakemake")


@dataclass(frozen=True)
class Step:
    """A command, what it is for, and the seconds that it may take."""

    what: str
    command: str
    seconds: float | None = None
    fresh: bool = True


ALONE = "rm -rf .venv;"  # of steps that make the environment themselves
STEPS = {
    "install": Step("the environment, with packages at hand", f"{ALONE} make .venv/.installed"),
    "first-look": Step("`make first-look`", "make first-look", 60),
    "demo": Step("`make demo`", "make demo", 240),
    "second": Step("`make demo` once more", "make demo", 4, fresh=False),
    "test": Step("`make test`", "make test", 480),
    "ci": Step("`.ci/run`, with the environment", f"{ALONE} .ci/run", 900),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}, in this order")
    parser.add_argument("--folder", type=Path, help="a clone, made if there is none")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.steps if name not in STEPS]:
        parser.error(f"no step is called {unknown[0]}; they are {', '.join(STEPS)}")
    folder = args.folder or Path(tempfile.mkdtemp()) / "clone"
    if args.steps and not folder.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    here = machine.facts(threads=2)
    if result.get("machine", here)["processor"] != here["processor"]:
        result = {}
    result["machine"] = here
    for name in args.steps:
        seconds = timed(STEPS[name], folder)
        times = result.setdefault("seconds", {}).setdefault(name, [])
        result["seconds"][name] = [*times[-2:], round(seconds, 1)]
        if name == "demo":
            result["after"] = rules(folder)
        write(result)


def write(result: dict[str, Any]) -> None:
    """Write the numbers, and the section of README.md."""
    write_text(RESULT, json.dumps(result, indent=2) + "\n")
    readme = report.HERE / "README.md"
    text, section = readme.read_text(encoding="utf-8"), markdown(result).rstrip() + "\n"
    write_text(readme, report.with_section(text, "minutes", TITLE, section))


def timed(step: Step, folder: Path) -> float:
    """Return the seconds that a command takes in a clone, and show what it says."""
    if step.fresh:
        for trace in TRACES:
            shutil.rmtree(folder / trace, ignore_errors=True)
    started = time.monotonic()
    subprocess.run(["bash", "-c", step.command], cwd=folder, check=True)
    return time.monotonic() - started


def rules(folder: Path) -> dict[str, list[float]]:
    """Return how many jobs of each rule the demo had, and for how many seconds they held a core."""
    jobs: dict[str, list[float]] = defaultdict(list)
    logs = folder / "logs/demo"
    for path in logs.glob("**/*.tsv"):
        with path.open(encoding="utf-8") as stream:
            rule = path.relative_to(logs).parts[0].removesuffix(".tsv")
            jobs[rule] += [float(row["s"]) for row in csv.DictReader(stream, delimiter="\t")]
    return {rule: [len(jobs[rule]), round(sum(jobs[rule]), 1)] for rule in sorted(jobs)}


def markdown(result: dict[str, Any]) -> str:
    """Return the section of README.md."""
    seconds = result.get("seconds", {})
    median = {name: statistics.median(times) for name, times in seconds.items()}
    targets = [
        report.Target(step.what, "at most", step.seconds, median.get(name), " s")
        for name, step in STEPS.items()
        if step.seconds is not None
    ]
    lines = [
        machine.sentence(result["machine"], None),
        "",
        "By `python -m benchmarks.minutes`: medians of the last three times, in a fresh clone with",
        "its own environment, on a machine that does nothing else.",
        "",
        *report.target_table(report.target_rows(targets)),
    ]
    if {"install", "first-look", "demo", "test"} <= set(median):
        ends = accumulate(median[name] for name in ("install", "first-look", "demo", "test"))
        figure, figures, tests = [f"{end / 60:.1f}" for end in ends][1:]
        lines += [
            f"A newcomer's clock, one after the other: the first figure {figure} minutes after the",
            f"clone, all figures after {figures}, green tests after {tests}.",
            "",
        ]
    every = [(STEPS[n].what, ", ".join(f"{s:g}" for s in times)) for n, times in seconds.items()]
    lines += report.table(("", "seconds"), every)
    if "after" in result:
        by_time = sorted(result["after"].items(), key=lambda rule: -rule[1][1])
        lines += ["For how long the jobs of each rule of the demo held a core:", ""]
        sums = (round(sum(each[k] for _, each in by_time)) for k in (0, 1))
        rows = [(f"`{name}`", *each) for name, each in by_time]
        lines += report.table(("rule", "jobs", "seconds"), [*rows, ("all of these", *sums)])
    return "\n".join(lines)


if __name__ == "__main__":
    main()

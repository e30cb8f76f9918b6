"""What the jobs that remain would take: from Snakemake's dry run and the times of finished jobs."""

import csv
import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ntk_conditioning.errors import UserError
from ntk_workflow import allocation
from ntk_workflow.resources import MOST_MINUTES

# With so many cores no job's threads are cut to those of this machine: it may be for a cluster.
_DRY_RUN = ["--dry-run", "--executor=local", "--cores=10000", "--nocolor"]
_QUIET = ["--quiet", "host", "reason"]
_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):$", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)
_TOTAL = re.compile(r"^total +(\d+)$", re.MULTILINE)
#: Seconds of a job whose rule has no formula: a table, a figure.
LIGHT = 4
#: Seconds of finished jobs from which a rule's pace here counts for more than the package's.
PRIOR = 60


class DryRunError(UserError):
    """Snakemake cannot plan the run, or its plan cannot be read."""


@dataclass(frozen=True)
class Job:
    """A planned job: ``seconds`` of one core, or of its GPU if it has any, and what it asks for."""

    rule: str
    seconds: float
    threads: int = 1
    gpus: int = 0
    mem_mb: int = 0
    minutes: int = 0
    account: str = ""
    partition: str = ""
    benchmark: str = ""
    log: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def plan(arguments: Sequence[str]) -> list[Job]:
    """Return the jobs that Snakemake would run; nothing is run."""
    command = [sys.executable, "-m", "snakemake", *arguments, *_DRY_RUN, *_QUIET]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise DryRunError("Snakemake cannot plan this run: its message is above")
    return jobs(done.stdout)


def jobs(dry_run: str) -> list[Job]:
    """Return the jobs that a dry run printed, without rules that only collect files."""
    _, *parts = _JOB.split(dry_run)
    # the first field of a name is the job's
    fields = [dict(reversed(_FIELD.findall(text))) for text in parts[1::2]]
    total = int((_TOTAL.findall(dry_run) or ["0"])[0])
    if total != len(fields):
        raise DryRunError(
            f"Snakemake's dry run counts {total} jobs and {len(fields)} can be read: "
            "this needs the Snakemake of envs/run.lock"
        )
    planned = []
    for rule, job in zip(parts[::2], fields, strict=True):
        asked = dict(pair.partition("=")[::2] for pair in job.get("resources", "").split(", "))
        planned.append(
            Job(
                rule,
                seconds=int(asked.get("core_seconds", LIGHT)),
                threads=int(job.get("threads", 1)),
                gpus=int(asked.get("gpu", 0)),
                mem_mb=int(asked.get("mem_mb", 0)),
                minutes=int(asked.get("runtime", 0)),
                account=asked.get("slurm_account", ""),
                partition=asked.get("slurm_partition", ""),
                benchmark=job.get("benchmark", ""),
                log=job.get("log", ""),
                inputs=tuple(filter(None, job.get("input", "").split(", "))),
                outputs=tuple(filter(None, job.get("output", "").split(", "))),
            )
        )
    return [job for job in planned if job.outputs]


def measured(job: Job) -> float | None:
    """Return the seconds that a finished job took of its cores or GPU, None if nobody knows.

    Cores that it shared count for its part, as Snakemake measured their load. A job that went on
    from checkpoints, or ran on another device, says nothing.
    """
    try:
        with Path(job.benchmark).open(encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file, delimiter="\t"))
        seconds = float(row["s"])
        load = float(row["mean_load"]) / 100 if row["mean_load"][:1].isdigit() else 0.0
        log = Path(job.log).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, LookupError, StopIteration):
        return None
    partial = ": kept\n" in log or "going on from a checkpoint" in log
    if partial or ("device cuda" in log) != bool(job.gpus):
        return None
    return seconds if job.gpus or not load else seconds * load


def report(remaining: Sequence[Job], finished: Iterable[Job], *, cluster: bool) -> Iterator[str]:
    """Yield what remains, rule by rule, at the pace of the jobs that have finished here."""
    pace: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for job in finished:
        if (took := measured(job)) is not None:
            estimated, measured_before = pace[job.rule]
            pace[job.rule] = [estimated + job.seconds, measured_before + took]
    rows = []
    for job in remaining:
        estimated, took = pace.get(job.rule, (0.0, 0.0))
        hours = job.seconds * (PRIOR + took) / (PRIOR + estimated) / 3600
        longest = hours if job.gpus else hours / job.threads
        row = {"rule": job.rule, "cores": job.threads, "GPUs": job.gpus, "GB": job.mem_mb / 1000}
        row |= {"core-hours": job.threads * longest, "GPU-hours": job.gpus * longest}
        rows.append(row | {"jobs": 1, "longest": longest, "asks for": job.minutes / 60})
    if not rows:
        yield "Nothing remains to be run."
    else:
        left = pd.DataFrame(rows)
        yield _table(left.sort_values("core-hours", ascending=False), ["rule"])
        yield from _submission(left, remaining) if cluster else [_here(left)]
    if not pace:
        yield "\nBy the package's own rates: no job of this run has been measured."
        return
    yield "\nFinished jobs, in seconds by the package's own rates, and as they took here:"
    table = pd.DataFrame(pace, index=["estimated", "measured"]).T
    table.loc["all"] = table.sum()
    yield table.assign(ratio=table["estimated"] / table["measured"]).to_string(float_format="%.2f")


def _table(left: pd.DataFrame, by: list[str]) -> str:
    """Return the jobs and their costs in groups, and of all."""
    how = dict.fromkeys(["jobs", "core-hours", "GPU-hours"], "sum")
    how |= dict.fromkeys(["longest", "asks for", "GB"], "max")
    if not left["asks for"].any():
        how.pop("asks for")
    groups = left.groupby(by, sort=by != ["rule"]).agg(how).reset_index()
    total = left.assign(**dict.fromkeys(by, "all")).groupby(by).agg(how).reset_index()
    table = pd.concat([groups, total])
    formats = dict.fromkeys({"longest", "asks for"} & {*how}, _duration)
    return str(table.to_string(index=False, formatters=formats, float_format="%.2f")) + "\n"


def _here(left: pd.DataFrame) -> str:
    """Return how long this machine takes, its cores all busy until the longest job is left."""
    cores = allocation.cores(os.environ)
    on_cores = left.loc[left["GPUs"] == 0, "core-hours"].sum() / cores
    hours = max(on_cores, left["GPU-hours"].sum(), left["longest"].max())
    return f"On this machine about {_duration(hours)}, with {cores} cores."


def _submission(left: pd.DataFrame, remaining: Sequence[Job]) -> Iterator[str]:
    """Yield what is submitted to a cluster: jobs by size, and who is charged."""
    yield f"{len(left)} jobs to submit, but for downloads, by what they ask for:\n"
    sizes = [4, 16, 64, 256, 1024]
    up_to = [next((size for size in sizes if gb <= size), sizes[-1]) for gb in left["GB"]]
    yield _table(left.assign(**{"up to GB": up_to}), ["cores", "GPUs", "up to GB"])
    for gpus in sorted({job.gpus for job in remaining}):
        charged = {(job.account, job.partition) for job in remaining if job.gpus == gpus}
        for account, partition in sorted(charged):
            names = f"account {account or 'not set'}, partition {partition or 'not set'}"
            yield f"Jobs with {gpus or 'no'} GPU: {names} (Slurm's default where none is set)."
    if (attempts := math.ceil(60 * left["longest"].max() / MOST_MINUTES)) > 1:
        yield f"The longest job takes {attempts} attempts of a day: retries {attempts - 1} or more."


def _duration(hours: float) -> str:
    """Return hours as a text.

    >>> _duration(1.51), _duration(0.01)
    ('1 h 31 min', '1 min')
    """
    whole, minutes = divmod(math.ceil(60 * hours), 60)
    return f"{whole} h {minutes:02} min" if whole else f"{minutes} min"

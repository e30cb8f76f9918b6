"""What the jobs that remain would take: from Snakemake's dry run and the times of finished jobs."""

import csv
import math
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import lsq_linear

from ntk_conditioning.errors import UserError
from ntk_workflow.resources import MOST_MINUTES, throughput

# With so many cores no job's threads are cut to those of this machine: it may be for a cluster.
_DRY_RUN = ["--dry-run", "--executor=local", "--cores=10000", "--nocolor"]
_QUIET = ["--quiet", "host", "reason"]
_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):$", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)
_TOTAL = re.compile(r"^total +(\d+)$", re.MULTILINE)
# Snakemake looks at a process every half second at first, later every half minute.
_OFTEN, _SELDOM, _AT_FIRST = 0.5, 30.0, 15.5
# The package's rates count as that many finished jobs, and are right to within this factor.
_PRIOR, _MOST = 2.0, 10.0


class DryRunError(UserError):
    """Snakemake cannot plan the run, or its plan cannot be read."""


@dataclass(frozen=True)
class Job:
    """A planned job: ``seconds`` of one core, or of its GPUs if it has any."""

    rule: str
    seconds: float
    threads: int = 1
    gpus: int = 0
    mem_mb: int = 0
    benchmark: str = ""
    log: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def hours(self) -> float:
        """How long it runs."""
        return self.seconds / 3600 / (1 if self.gpus else self.threads)


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
    return [
        _job(rule, job) for rule, job in zip(parts[::2], fields, strict=True) if "output" in job
    ]


def _job(rule: str, fields: Mapping[str, str]) -> Job:
    resources = dict(pair.partition("=")[::2] for pair in fields.get("resources", "").split(", "))
    for name in ("gpu", "core_seconds", "mem_mb"):
        if not (text := resources.setdefault(name, "0")).isdecimal():
            raise DryRunError(f"rule {rule}: its resource {name} is {text}, not a whole number")
    gpus = int(resources["gpu"])
    seconds = int(resources["core_seconds"]) or throughput(rule, gpu=bool(gpus)).startup
    threads, memory = int(fields.get("threads", 1)), int(resources["mem_mb"])
    files = fields.get("benchmark", ""), fields.get("log", "")
    lists = (fields.get(name, "").split(", ") for name in ("input", "output"))
    read, made = (tuple(filter(None, names)) for names in lists)
    return Job(rule, seconds, threads, gpus, memory, *files, read, made)


def measured(job: Job) -> float | None:
    """Return the seconds that a finished job took of its core or GPU, None if nobody knows.

    A core that was shared counts for its part: the processor's time as of the last look at the
    process goes on at the same pace.
    """
    try:
        with Path(job.benchmark).open(encoding="utf-8", newline="") as file:
            (row,) = csv.DictReader(file, delimiter="\t")
        log = Path(job.log).read_text(encoding="utf-8", errors="replace")
        seconds = float(row["s"])
        busy = 0.0 if row["cpu_time"] in ("NA", "-") else float(row["cpu_time"])
    except (OSError, ValueError, LookupError):
        return None
    partial = ": kept\n" in log or "going on from a checkpoint" in log
    if partial or ("device cuda" in log) != bool(job.gpus):
        return None
    looked = min(seconds, _AT_FIRST) // _OFTEN * _OFTEN
    looked += max(0.0, seconds - _AT_FIRST) // _SELDOM * _SELDOM
    share = busy / looked if busy and looked and not job.gpus else 1.0
    return seconds * share or None


Timings = Mapping[str, Sequence[tuple[Job, float]]]


def timings(planned: Iterable[Job]) -> Timings:
    """Return the jobs that have finished by rule, each with the seconds that it took."""
    by_rule = defaultdict(list)
    for job in planned:
        if (seconds := measured(job)) is not None:
            by_rule[job.rule].append((job, seconds))
    return by_rule


def fitted(planned: Iterable[Job], finished: Timings) -> list[Job]:
    """Return the jobs with seconds as this machine takes them.

    Startup and work of a rule each have a factor. Both minimise the squares of relative errors, so
    that short jobs count as much as long ones; but they do not make long ones longer, for they say
    little of the work's factor, which stays near 1.
    """
    factors, prior = {}, math.sqrt(_PRIOR)
    for rule, pairs in finished.items():
        scales = np.sqrt([job.seconds * seconds for job, seconds in pairs])
        a = np.reshape([_parts(job) for job, _ in pairs], (-1, 2)) / scales[:, None]
        b = np.array([seconds for _, seconds in pairs]) / scales
        a, b = np.vstack([prior * np.eye(2), a]), np.append([prior, prior], b)
        factors[rule] = lsq_linear(a, b, bounds=(1 / _MOST, _MOST)).x
    return [
        replace(job, seconds=float(factors.get(job.rule, np.ones(2)) @ _parts(job)))
        for job in planned
    ]


def _parts(job: Job) -> tuple[float, float]:
    """Return the seconds of a job's startup, and of its work."""
    startup = min(job.seconds, throughput(job.rule, gpu=bool(job.gpus)).startup)
    return startup, job.seconds - startup


#: Rules of trainings.
TRAININGS = ("train_network", "train_and_measure_network")
_LONG = 24  # hours of a training, from which a GPU is worth a hint
_COSTS = {"jobs": "sum", "core-hours": "sum", "GPU-hours": "sum", "longest": "max", "memory": "max"}
_TIMES = {"finished": "sum", "estimated seconds": "sum", "measured seconds": "sum"}


def report(remaining: Sequence[Job], finished: Timings) -> Iterator[str]:
    """Yield a table of what remains, and one of how far off the estimate was for finished jobs."""
    costs = [
        (job.rule, 1, job.threads * job.hours, job.gpus * job.hours, job.hours, job.mem_mb / 1000)
        for job in fitted(remaining, finished)
    ]
    yield _table(costs, _COSTS) if costs else "Nothing remains to be run."
    yield ""
    if assumed := sorted({job.rule for job in remaining if job.gpus} - finished.keys()):
        yield (
            f"GPU-hours of {', '.join(assumed)} are by an H100's rates: no such job of this run "
            "was measured."
        )
    if any(job.rule in TRAININGS and not job.gpus and job.hours > _LONG for job in remaining):
        yield "Trainings are counted on processors; PROFILE=gpu or PROFILE=slurm gives them GPUs."
    longest = max((hours for *_, gpus, hours, _ in costs if gpus), default=0.0)
    if (attempts := math.ceil(60 * longest / MOST_MINUTES)) > 1:
        yield f"The longest job takes {attempts} attempts of a day: retries {attempts - 1} or more."
    if not finished:
        yield "From the package's own rates: no job of this run has been measured."
        return
    pairs = [(job, seconds) for group in finished.values() for job, seconds in group]
    yield f"Fitted to {len(pairs)} finished jobs, for which the package's own rates give:\n"
    yield _table([(job.rule, 1, job.seconds, seconds) for job, seconds in pairs], _TIMES)


def _table(rows: Iterable[tuple[Any, ...]], columns: Mapping[str, str]) -> str:
    """Return the rows by rule, the costliest first, and those of all rules last."""
    frame = pd.DataFrame(rows, columns=["rule", *columns])
    rules = frame.groupby("rule").agg(columns).sort_values([*columns][1:], ascending=False)
    table = pd.concat([rules, frame.assign(rule="all").groupby("rule").agg(columns)])
    if columns is _TIMES:
        table["ratio"] = table["estimated seconds"] / table["measured seconds"]
    formats = {"longest": _duration, "memory": lambda gb: f"{gb:.1f} GB" if gb else "-"}
    return str(table.to_string(formatters=formats, float_format="{:.2f}".format, index_names=False))


def _duration(hours: float) -> str:
    """Return hours as a text.

    >>> _duration(1.51), _duration(0.01)
    ('1 h 31 min', '1 min')
    """
    whole, minutes = divmod(math.ceil(60 * hours), 60)
    return f"{whole} h {minutes:02} min" if whole else f"{minutes} min"

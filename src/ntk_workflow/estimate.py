"""What the jobs that remain would take: from Snakemake's dry run and the times of finished jobs."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ntk_conditioning.errors import UserError
from ntk_workflow import slurm_limits
from ntk_workflow.resources import MOST_MINUTES


def plan(arguments: Sequence[str]) -> pd.DataFrame:
    """Return the jobs of Snakemake's dry run: seconds of a core or GPU, and what they ask for."""
    # With so many cores no job's threads are cut to those of this machine.
    options = ["--dry-run", "--executor=local", "--cores=10000", "--nocolor"]
    command = [sys.executable, "-m", "snakemake", *arguments, *options, "--quiet", "host", "reason"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise UserError("Snakemake cannot plan this run: its message is above")
    _, *parts = re.split(r"^(?:local)?rule (\w+):$", done.stdout, flags=re.MULTILINE)
    rows = []
    for rule, text in zip(parts[::2], parts[1::2], strict=True):
        # the first field of a name is the job's
        job = dict(reversed(re.findall(r"^    (\w+): (.*)$", text, flags=re.MULTILINE)))
        asked = dict(pair.partition("=")[::2] for pair in job.get("resources", "").split(", "))
        row = {
            "rule": rule,
            "seconds": int(asked.get("core_seconds", 4)),
            "cores": int(job.get("threads", 1)),
            "GPUs": int(asked.get("gpu", 0)),
            "GB": int(asked.get("mem_mb", 0)) / 1000,
            "asks for": int(asked.get("runtime", 0)) / 60,
            "account": asked.get("slurm_account", "not set"),
            "partition": asked.get("slurm_partition", "not set"),
            "benchmark": job.get("benchmark", ""),
            "log": job.get("log", ""),
        }
        if "output" in job:  # others only collect files
            rows.append(row)
    return pd.DataFrame(rows)


def measured(job: pd.Series) -> float:
    """Return the seconds that a finished job took of its cores or GPU, NaN if nobody knows."""
    try:
        benchmark = pd.read_csv(job["benchmark"], sep="\t").iloc[0]
        log = Path(job["log"]).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return math.nan
    resumed = ": kept\n" in log or "going on from a checkpoint" in log
    if resumed or ("device cuda" in log) != bool(job["GPUs"]):
        return math.nan
    # a job may end before Snakemake looks at its processor time for the first time
    return float(benchmark["s" if job["GPUs"] else "cpu_time"]) or math.nan


def report(left: pd.DataFrame, finished: pd.DataFrame, *, cluster: bool) -> Iterator[str]:
    """Yield what remains, rule by rule, at the pace of the jobs that have finished here."""
    sums = pd.DataFrame(columns=["seconds", "took"])
    if len(finished):
        finished = finished.assign(took=finished.apply(measured, axis=1)).dropna()
        sums = finished.groupby("rule")[["seconds", "took"]].sum()
    if left.empty:
        yield "Nothing remains to be run."
    else:
        # a minute of finished jobs counts as much as the package's own rates
        pace = left["rule"].map((60 + sums["took"]) / (60 + sums["seconds"])).fillna(1)
        hours = left["seconds"] * pace / 3600
        left = left.assign(jobs=1, longest=hours.where(left["GPUs"] > 0, hours / left["cores"]))
        left["core-hours"] = left["cores"] * left["longest"]
        left["GPU-hours"] = left["GPUs"] * left["longest"]
        yield _table(left, ["rule"])
        if cluster:
            yield from _submission(left)
        else:  # its cores are all busy until the longest job is left
            cores = slurm_limits.cores()
            on_cores = left.loc[left["GPUs"] == 0, "core-hours"].sum() / cores
            hours = max(on_cores, left["GPU-hours"].sum(), left["longest"].max())
            duration = f"{hours:.1f} hours" if hours > 1 else f"{math.ceil(60 * hours)} min"
            yield f"On this machine about {duration}, with {cores} cores."
    if len(sums):
        ratio = sums["seconds"].sum() / sums["took"].sum()
        yield f"By its own rates the package expects {ratio:.2f} times what finished jobs took."


def _table(left: pd.DataFrame, by: list[str]) -> str:
    """Return the jobs and their costs in groups, and of all; times are hours."""
    how = dict.fromkeys(["jobs", "core-hours", "GPU-hours"], "sum")
    how |= dict.fromkeys(["longest", "asks for", "GB"], "max")
    groups = left.groupby(by, observed=True).agg(how).sort_values("core-hours", ascending=False)
    total = left.assign(**dict.fromkeys(by, "all")).groupby(by).agg(how)
    table = pd.concat([groups.reset_index(), total.reset_index()])
    return str(table.to_string(index=False, float_format="%.2f")) + "\n"


def _submission(left: pd.DataFrame) -> Iterator[str]:
    """Yield what is submitted to a cluster: jobs by size, and who is charged."""
    yield f"{len(left)} jobs to submit, but for downloads, by what they ask for:\n"
    up_to = pd.cut(left["GB"], [-1, 4, 16, 64, 256, np.inf], labels=[4, 16, 64, 256, 1024])
    yield _table(left.assign(**{"up to GB": up_to}), ["cores", "GPUs", "up to GB"])
    for gpus, account, partition in left.groupby(["GPUs", "account", "partition"]).groups:
        names = f"account {account}, partition {partition}"
        yield f"Jobs with {gpus or 'no'} GPU: {names} (Slurm's default where none is set)."
    if (attempts := math.ceil(60 * left["longest"].max() / MOST_MINUTES)) > 1:
        yield f"The longest job takes {attempts} attempts of a day: retries {attempts - 1} or more."

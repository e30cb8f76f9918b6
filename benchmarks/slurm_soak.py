"""Disturb runs on a real Slurm until every kind of failure has happened often; `make slurm-soak`.

Jobs are cancelled, reach their time limit, are preempted, lose their node or begin with too little
memory; everything is cancelled and Snakemake killed, or stopped with Ctrl-C, and called again.
Every run must end by itself with the bytes of one that was left in peace.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm import injections
from tests.slurm.cluster import Cluster
from tests.slurm.site import Site, Submission, bytes_of
from tests.support.clone import ROOT, Clone

RESULT = ROOT / "benchmarks/results/slurm_soak.json"

#: What happens to one job or to those on one node, and what ends a run that is called again.
TO_JOBS = ("cancel", "end_time", "preempt", "memory", "restart_node")
TO_RUNS = ("cancel_everything", "interrupt")
KINDS = TO_JOBS + TO_RUNS

#: A job is tried eight times, and its first try lacks memory; five are left in reserve.
HITS = 2

EXPERIMENT = {"datasets": ["digits"], "width": 160, "seeds": [1], "samples": "all"}
EXPERIMENT |= {"batch_size": 50, "epochs": 500, "learning_rates": [0.01, 0.02]}
OVERLAY = {
    "run": "soak",
    "datasets": ["digits"],
    "depths": [0, 1, 2, 4],
    "activation_study": {"datasets": ["digits_sphere"], "activations": ["relu"], "depths": [1]},
    "training": {
        "fig3": {**EXPERIMENT, "depths": [1, 2, 3, 4, 5, 6]},
        "fig3_code": {**EXPERIMENT, "depths": [1, 2, 3]},
        "gradient_descent": {"depths": [1], "width": 64, "seeds": [1], "epochs": 5},
    },
}
TABLES = "results/soak/tables/*"
NAMES = ("spectra", "conditioning", "angles", "training", "learning_rates")
TARGETS = [f"results/soak/tables/{name}.parquet" for name in NAMES]
OPTIONS = ("--configfile", "soak.json")
#: Too little memory for the first try of every training.
LITTLE = "train_network:mem_mb=400 * attempt ** 2"


@dataclass
class Record:
    wanted: int
    runs: int = 0
    wrong: int = 0
    failed: int = 0
    jobs: int = 0
    minutes: float = 0.0
    injected: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)

    def missing(self) -> list[str]:
        return [kind for kind in KINDS if self.injected[kind] < self.wanted]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="how often each kind happens")
    parser.add_argument("--minutes", type=float, default=600, help="no run begins after them")
    parser.add_argument("--go-on", action="store_true", help="count what is recorded already")
    args = parser.parse_args(argv)
    record = recorded(args.times) if args.go_on else Record(args.times)
    start = time.monotonic() - 60 * record.minutes
    with tempfile.TemporaryDirectory(prefix="ntk-soak-") as folder:
        undisturbed = Clone(Path(folder) / "local")
        (undisturbed.folder / "soak.json").write_text(json.dumps(OVERLAY))
        undisturbed.run(*TARGETS, *OPTIONS, "--cores", "2")
        expected = bytes_of(undisturbed, TABLES)
        with Cluster(Path(folder) / "ntk-slurm").running() as cluster:
            while record.missing() and time.monotonic() - start < 60 * args.minutes:
                site = Site(Path(folder) / f"run-{record.runs}", cluster)
                (site.folder / "soak.json").write_text(json.dumps(OVERLAY))
                one_run(site, record)
                record.wrong += bytes_of(site, TABLES) != expected
                record.runs += 1
                record.minutes = round((time.monotonic() - start) / 60, 1)
                save(record)
    return 1 if record.wrong or record.failed or record.missing() else 0


def one_run(site: Site, record: Record) -> None:
    """Let one run go to its end, disturbed by what is missing."""
    random.seed(record.runs)
    hits: Counter[str] = Counter()
    submission = submit(site, record)
    while submission.process.poll() is None:
        time.sleep(random.uniform(1, 4))
        running = site.cluster.queue("--states=RUNNING")
        jobs = [job for job in running if hits[job["Comment"]] < HITS]
        kinds = [kind for kind in record.missing() if kind != "memory"]
        if not kinds or not jobs or submission.process.poll() is not None:
            continue
        # First what happens to jobs, and of that the kind that has happened least often.
        kinds = [kind for kind in kinds if kind in TO_JOBS] or kinds
        kind, job = min(kinds, key=record.injected.__getitem__), random.choice(jobs)
        record.injected[kind] += 1
        hits[job["Comment"]] += 1
        say(record, kind, job["Comment"])
        if kind in TO_RUNS:
            count_ends(submission, record)
            stop(site, submission, kind)
            hits.clear()
            submission = submit(site, record)
        elif kind == "restart_node":
            injections.restart_node(site.cluster)
        else:
            getattr(injections, kind)(site.cluster, job["JobID"])
        injections.hurry(site.cluster)  # what Slurm starts again, as far as it has noticed
    count_ends(submission, record)
    if submission.wait():
        record.failed += 1
        sys.stderr.write(submission.text()[-6000:])


def submit(site: Site, record: Record) -> Submission:
    little = ["--set-resources", LITTLE] if "memory" in record.missing() else []
    return site.submit(*TARGETS, *OPTIONS, *little)


def stop(site: Site, submission: Submission, kind: str) -> None:
    """End Snakemake and all jobs, in one of two ways."""
    if kind == "interrupt":
        submission.interrupt()
        submission.wait(seconds=240)
    else:
        submission.kill()
        site.cluster.command("scancel", "--user=root")
        site.run("--unlock", *OPTIONS)
    while site.cluster.queue():
        time.sleep(0.5)


def count_ends(submission: Submission, record: Record) -> None:
    """Add how a submission's jobs ended; those that lack memory are the failures."""
    states = Counter(submission.ends())
    record.states += states
    record.jobs += states.total()
    record.injected["memory"] += states["OUT_OF_MEMORY"] + states["FAILED"]


def recorded(wanted: int) -> Record:
    """Return what an earlier soak has recorded."""
    values = json.loads(RESULT.read_text(encoding="utf-8"))
    counts = {name: Counter(values[name]) for name in ("injected", "states")}
    return Record(wanted, **values | counts)


def save(record: Record) -> None:
    values = {name: value for name, value in vars(record).items() if name != "wanted"}
    RESULT.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    say(record, "run ended", f"{record.wrong} wrong, {record.failed} failed")


def say(record: Record, what: str, more: str) -> None:
    print(time.strftime("%H:%M:%S"), f"run {record.runs}:", what, more, flush=True)


if __name__ == "__main__":
    sys.exit(main())

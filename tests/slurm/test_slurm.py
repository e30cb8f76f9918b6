"""The workflow on a real Slurm: as on one machine, to the byte, and killed jobs go on."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.slurm.cluster import command, wait_until
from tests.slurm.conftest import Submission
from tests.workflow.conftest import CI

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

#: A training that takes some seconds.
LONG = "training={fig3: {datasets: [digits], depths: [1], width: 256, seeds: [1], samples: all,"
LONG += " epochs: 200, learning_rates: [0.01]}}"
TRAINING = "results/ci/training/fig3/digits/mlp/relu/depth-1.parquet"


def jobs(*, word: str = "", fields: str = "JobID,State") -> list[list[str]]:
    """Return fields of the jobs whose line has a word, oldest first."""
    words = f"sacct -X -a -n -P --duplicates --starttime now-1days --format {fields}"
    lines = (command(words) or "").splitlines()
    return [line.split("|") for line in lines if word in line]


def test_a_figure_comes_through_slurm_though_it_is_interrupted(site, request):
    target = ("liu2023relu_fig3", *CI)
    before = len(jobs(word="billing", fields="Comment,AllocTRES"))
    first = Submission(site, *target)
    wait_until(lambda: "Finished jobid" in first.text(), "a finished job", seconds=600)
    done = {path: path.stat().st_mtime_ns for path in site.files("results/ci/datasets/**/*")}
    first.process.send_signal(signal.SIGINT)  # Ctrl-C
    assert first.wait() != 0
    wait_until(lambda: not command("squeue -h"), "an empty queue")
    again = Submission(site, *target)
    assert again.wait() == 0, again.text()[-9000:]

    finished = request.getfixturevalue("finished")
    made = [*site.files("results/ci/figures/**/*.png"), *site.files("results/ci/tables/**/*")]
    assert len(made) >= 2
    for path in made:
        name = path.relative_to(site.folder)
        assert path.read_bytes() == (finished.folder / name).read_bytes(), name
    assert done == {path: path.stat().st_mtime_ns for path in done}
    assert site.plan(*target) == {}
    for comment, resources in jobs(word="billing", fields="Comment,AllocTRES")[before:]:
        assert ("gres/gpu=1" in resources) == ("train_network" in comment), comment


def stopped_training() -> str | None:
    """Stop the training if it handles SIGTERM, with which Slurm sends SIGCONT; return its job."""
    for job, _, memory in jobs(word="RUNNING", fields="JobID,State,ReqMem"):
        if memory == "400M":  # it may run for a moment until Slurm sees what it takes
            continue
        lines = (command(f"scontrol listpids {job}", check=False) or "").splitlines()
        pids = [int(line.split()[0]) for line in lines[1:]]
        for pid in pids:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                status = Path(f"/proc/{pid}/status").read_text()
                handled = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16)
                if b"scripts/train_network.py" in words and handled & 1 << signal.SIGTERM - 1:
                    for each in pids:
                        os.kill(each, signal.SIGSTOP)
                    return job
    return None


def test_a_job_that_runs_out_of_memory_and_of_time_gets_more_and_goes_on(site):
    # too little for torch, and enough when it is tried again
    little = ("--set-resources", "train_network:mem_mb=400 * attempt ** 2")
    submission = Submission(site, TRAINING, *CI, *little, "--config", LONG)
    while (job := stopped_training()) is None:
        assert submission.process.poll() is None, submission.text()[-9000:]
        time.sleep(0.1)
    command(f"scontrol update JobId={job} EndTime=now+1second")
    assert submission.wait() == 0, submission.text()[-9000:]
    tried = jobs(word="train_network", fields="Comment,State,ReqMem,TimelimitRaw")[-3:]
    _, states, memory, minutes = zip(*tried, strict=True)
    assert states[0] in ("OUT_OF_MEMORY", "FAILED")
    assert states[1:] == ("TIMEOUT", "COMPLETED")
    assert memory == ("400M", "1600M", "3600M")
    assert int(minutes[0]) < int(minutes[2])  # that of the second is what it was made
    log = site.folder / "logs/ci/train_network/fig3/digits/mlp/relu/depth-1.log"
    assert "going on from a checkpoint" in log.read_text()

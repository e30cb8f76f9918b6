"""Runs, trainings and downloads, killed at any moment and started again: the same bytes.

`python -m tests.attack.kills [KILLS]` kills each 20 times; the suite has a few of the same.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from tests.support.clone import ROOT, Clone
from tests.support.fault_server import Plan, running
from tests.support.sources import write_prepared
from tests.trainings import to_words

RUN = ("-m", "snakemake", "--configfile", "config/ci.yaml", "--cores", "2", "--nolock")
#: Files of a run in which times are.
DATED = ("record/jobs.json",)


def kill(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    kills: int,
    moment: Callable[[], float],
) -> int:
    """Return how often a command was killed, with all that it started, before it got to its end."""
    killed = 0
    while True:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, start_new_session=True, **quiet
        )
        try:
            code = process.wait(timeout=moment() if killed < kills else None)
        except subprocess.TimeoutExpired:
            killed += 1
        else:
            assert code == 0, f"{' '.join(command)}: exit code {code}"
            return killed
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def whole_runs(folder: Path, kills: int, rng: random.Random) -> tuple[int, int, list[str]]:
    """Return the kills of a whole run, its files, and those that are not an undisturbed run's."""
    usual, disturbed = Clone(folder / "usual"), Clone(folder / "disturbed")
    environment = usual.environment()
    kill(RUN, usual.folder, environment, kills=0, moment=float)
    within = {"kills": kills, "moment": lambda: rng.uniform(3, 12)}
    killed = kill(RUN, disturbed.folder, environment, **within)
    before, after = (_digests(clone.folder / "results/ci") for clone in (usual, disturbed))
    return (
        killed,
        len(before),
        sorted(n for n in {*before, *after} if before.get(n) != after.get(n)),
    )


def _digests(folder: Path) -> dict[str, str]:
    paths = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    # a kill may leave the hidden file that was being written, which nobody reads
    kept = {name: p for name, p in paths.items() if name not in DATED and p.name[0] != "."}
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in kept.items()}


def trainings(folder: Path, kills: int, rng: random.Random) -> tuple[int, int, list[str]]:
    """Return the same of a training that writes a checkpoint in each epoch."""
    write_prepared(folder / "train.npz", n=200, d=64, labels=(1, 2, 3))
    sizes = {"depth": 4, "width": 256, "seeds": (1, 2), "learning_rates": (0.1, 0.2)}
    sizes |= {"batch_size": 10, "epochs": 400, "checkpoint_minutes": 1e-9, "threads": 1}
    names = {"data": "train.npz", "experiment": "fig3", "dataset": "tiny", "activation": "relu"}
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def run(name: str, kills: int) -> int:
        files = {"output": f"{name}.parquet", "checkpoints": name}
        command = [str(ROOT / "scripts/train_network.py"), *to_words(names | sizes | files)]
        moment = lambda: rng.uniform(1.5, 4)  # noqa: E731
        return kill(command, folder, environment, kills=kills, moment=moment)

    run("usual", 0)
    killed = run("disturbed", kills)
    same = (folder / "usual.parquet").read_bytes() == (folder / "disturbed.parquet").read_bytes()
    return killed, 1, [] if same else ["disturbed.parquet"]


def downloads(folder: Path, kills: int, rng: random.Random) -> tuple[int, int, list[str]]:
    """Return the same of a download from a slow server that has ranges."""
    content, output = rng.randbytes(4_000_000), folder / "data/images.gz"
    with running() as server:
        url = server.serve("/images.gz", Plan(content=content, rate=4e5))
        words = {"name": "images.gz", "output": output, "bytes": len(content), "urls": url}
        words |= {"sha256": sha256(content).hexdigest()}
        command = [str(ROOT / "scripts/download_file.py"), *to_words(words)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        moment = lambda: rng.uniform(0.2, 0.8)  # noqa: E731
        killed = kill(command, folder, environment, kills=kills, moment=moment)
    left = [path.name for path in output.parent.iterdir() if path.name[0] != "."]  # but its lock
    return killed, 1, [] if output.read_bytes() == content and left == [output.name] else left


KINDS = {"whole runs": whole_runs, "trainings": trainings, "downloads": downloads}


def main() -> int:
    kills, rng, wrong = int((sys.argv[1:] or ["20"])[0]), random.Random(1), 0
    print("| killed and started again | kills | files | not the same | minutes |")
    for kind, attack in KINDS.items():
        folder, begin = Path(tempfile.mkdtemp()), time.monotonic()
        killed, files, unlike = attack(folder, kills, rng)
        minutes = (time.monotonic() - begin) / 60
        print(
            f"| {kind} | {killed} | {files} | {', '.join(unlike) or 0} | {minutes:.1f} |",
            flush=True,
        )
        shutil.rmtree(folder)
        wrong += bool(unlike)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())

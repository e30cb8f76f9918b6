"""What finished jobs took, from their benchmark files, and their work, from their cells."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow.resources import (
    LIGHT,
    Observation,
    Work,
    cells,
    description,
    module_training,
    preparation,
    training,
    training_kernel,
)

#: Snakemake looks at a process every half second at first, later every half minute.
OFTEN, SELDOM = (0.5, 15.5), 30.0


class NotWholeError(Exception):
    """A job did not do all of its work, or nobody knows how much."""


@dataclass(frozen=True)
class Benchmark:
    """A job of a run, with what it took."""

    run: str
    time: float
    observation: Observation


def read_benchmarks(logs: Path, results: Path) -> tuple[list[Benchmark], list[Path]]:
    """Return the jobs that can be used, and the benchmark files of those that cannot."""
    found, unusable = [], []
    for path in sorted(logs.glob("*/**/*.tsv")):
        run, rule, *place = path.relative_to(logs).with_suffix("").parts
        try:
            log = path.with_suffix(".log")
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            if ": kept\n" in text or "going on from a checkpoint" in text:
                raise NotWholeError
            work = work_of(rule, place, results / run)
            gpu = "device cuda" in text
            found.append(Benchmark(run, path.stat().st_mtime, measured(path, rule, work, gpu)))
        except (OSError, ValueError, LookupError, TypeError, NotWholeError, pa.ArrowException):
            unusable.append(path)
    return found, unusable


def measured(path: Path, rule: str, work: Work, gpu: bool) -> Observation:
    """Return what a benchmark file says.

    The processor's time is as of the last look at the process, and goes on at the same pace.
    """
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    seconds = float(row["s"])
    memory = None if row["max_rss"] in ("NA", "-") else float(row["max_rss"]) * 1e6
    short, until = OFTEN
    if seconds < until:
        looked = seconds // short * short
    else:
        looked = until + (seconds - until) // SELDOM * SELDOM
    busy = 0.0 if row["cpu_time"] in ("NA", "-") else float(row["cpu_time"])
    if not gpu and busy > 0 and looked > 0:
        seconds *= busy / looked
    if not seconds > 0:
        raise ValueError(f"{path}: no time")
    return Observation(rule, work, seconds, memory, gpu)


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Where a rule's cells are, and their columns that say what they cost.

    The dataset is part number ``dataset`` of the cells' place.
    """

    folder: str
    columns: list[str]
    dataset: int = 0


SPECTRA = ["depth", "seed", "width", "dtype", "n", "method"]
ANGLES = ["depth", "seed", "width", "min_angle"]
KERNELS = ["depth", "seed", "width", "n_train"]
NETWORKS = [
    *("model", "image", "depth", "width", "n", "n_test", "d", "classes", "outputs", "batch_size"),
    "dtype",
]
RULES = {
    "prepare_dataset": Rule("datasets", []),
    "describe_dataset": Rule("datasheets", []),
    "compute_spectrum": Rule("spectra", SPECTRA, 1),
    "compute_infinite_spectrum": Rule("spectra", SPECTRA, 1),
    "compute_min_angle": Rule("angles/empirical_ntk", ANGLES),
    "compute_infinite_min_angle": Rule("angles/infinite_ntk", ANGLES),
    "compute_training_kernel": Rule("training_kernels", KERNELS, 1),
    "train_network": Rule("training", [*NETWORKS, "seed", "learning_rate", "epoch", "diverged"], 1),
}


def work_of(rule: str, place: Sequence[str], run: Path) -> Work:
    """Return the work of a job of a run from the cells that it computed, at ``place``."""
    if rule not in RULES:
        return LIGHT
    known = RULES[rule]
    stem = run.joinpath(known.folder, *place)
    path = stem.with_name(f"{stem.name}.parquet")
    rows = []
    if known.columns:
        rows = pq.read_table(path, columns=known.columns, partitioning=None).to_pylist()
    sheets = sorted((run / "datasets" / place[known.dataset]).glob("*.json"))
    if not sheets or (known.columns and not rows):
        raise NotWholeError
    sheet = json.loads(sheets[0].read_text(encoding="utf-8"))
    size = {"n": sheet["n"], "d": sheet["d"]}
    if rule == "prepare_dataset":
        return preparation(**size)
    if rule == "describe_dataset":
        return description(**size)
    if rule == "train_network":
        return training_work(rows, loaded=sheet["n"])
    activation = next(part for part in reversed(place) if not part.startswith("depth-"))
    first, seeds = rows[0], len({row["seed"] for row in rows})
    if rule == "compute_training_kernel":
        sizes = {key: first[key] for key in ("width", "depth")}
        samples = {"n": first["n_train"], "d": sheet["d"], "loaded": sheet["n"]}
        return training_kernel(**samples, **sizes, seeds=seeds, linear=activation == "linear")
    depths = sorted({row["depth"] for row in rows})
    if "spectrum" in rule:
        whole = all(row["method"] != "extremes" for row in rows)
        size |= {
            "kernel_size": first["n"],
            "blocks": len(rows) // (seeds * len(depths)),
            "full_below": first["n"] + whole,
            "dtype_bytes": np.dtype(first["dtype"]).itemsize,
        }
    elif any(row["min_angle"] == 0 for row in rows):  # equal samples end a search before it begins
        raise NotWholeError
    if rule == "compute_spectrum":
        size["kernel"] = place[0]
    return cells(rule, activation, **size, depths=depths, seeds=seeds, width=first["width"])


def training_work(rows: Sequence[dict[str, Any]], *, loaded: int) -> Work:
    """Return the work that was done: networks that diverged count for the epochs until then."""
    row, epochs = rows[0], sorted({row["epoch"] for row in rows})
    seeds = len({own["seed"] for own in rows})
    trained = sum(not own["diverged"] and own["epoch"] < epochs[-1] for own in rows)
    sizes = {
        **{key: row[key] for key in ("n", "d", "width", "depth", "n_test")},
        "classes": row["classes"] if row["outputs"] == "classes" else 1,
        "networks": trained / (len(epochs) - 1),
        "epochs": epochs[-1],
        "batch": row["batch_size"],
        "evaluate_every": epochs[1],
        "loaded": loaded,
        "draws": seeds if row["n"] < loaded else 0,
        "dtype_bytes": np.dtype(row["dtype"]).itemsize,
    }
    if not MODELS[row["model"]].by_modules:
        return training(**sizes)
    image = None if row["image"] == "none" else tuple(map(int, row["image"].split()))
    return module_training(row["model"], **sizes, seeds=seeds, image=image)

"""Small finished runs: datasets, cells and benchmark files, as rules and Snakemake leave them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import compute_infinite_min_angle
import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import compute_training_kernel
import numpy as np
import train_network

from ntk_conditioning.data import datasets
from ntk_conditioning.data.prepared import Dataset, save_prepared
from ntk_workflow.resources import (
    Work,
    infinite_min_angle,
    infinite_spectrum,
    min_angle,
    spectrum,
    training,
    training_kernel,
)

N, D, WIDTH = 30, 4, 64
SIZES = {"n": N, "d": D}
ROWS = {"depths": [0, 2], "seeds": 2}
BLOCKS = {"kernel_size": 10, "blocks": 3, "full_below": 11}
RATES = ("0.01", "1e30")  # of which the second diverges in the first epoch

# By rule: its program, options of its own, the place of a job, and the work of it.
Job = tuple[Callable[[list[str]], int], str, str, Work]
BLOCK_OPTIONS = "--kernel-size 10 --blocks all"
CELLS: dict[str, Job] = {
    "compute_spectrum/empirical_ntk": (
        compute_spectrum.main,
        f"--width {WIDTH} {BLOCK_OPTIONS}",
        "spectra/empirical_ntk",
        spectrum(**SIZES, **ROWS, **BLOCKS, width=WIDTH),
    ),
    "compute_spectrum/empirical_nngp": (
        compute_spectrum.main,
        f"--kernel empirical_nngp --width {WIDTH} {BLOCK_OPTIONS}",
        "spectra/empirical_nngp",
        spectrum(**SIZES, **ROWS, **BLOCKS, width=WIDTH, embeddings=True),
    ),
    "compute_infinite_spectrum/nngp": (
        compute_infinite_spectrum.main,
        f"--kernel nngp {BLOCK_OPTIONS}",
        "spectra/nngp",
        infinite_spectrum(**SIZES, **ROWS, **BLOCKS),
    ),
    "compute_min_angle": (
        compute_min_angle.main,
        f"--width {WIDTH}",
        "angles/empirical_ntk",
        min_angle(**SIZES, **ROWS, width=WIDTH),
    ),
    "compute_infinite_min_angle": (
        compute_infinite_min_angle.main,
        "",
        "angles/infinite_ntk",
        infinite_min_angle(**SIZES, **ROWS),
    ),
}
NETWORK = {**SIZES, "width": WIDTH, "depth": 2, "loaded": N}
NETWORKS: dict[str, Job] = {
    "compute_training_kernel": (
        compute_training_kernel.main,
        "",
        "training_kernels",
        training_kernel(**NETWORK, seeds=2),
    ),
    "train_network": (
        train_network.main,
        f"--epochs 4 --evaluate-every 2 --batch-size 10 --learning-rates {' '.join(RATES)}",
        "training",
        # of the two networks of a seed, one trains for the first two of the four epochs only
        training(**NETWORK, classes=3, networks=3.0, epochs=4, batch=10, evaluate_every=2),
    ),
}
HEADER = [
    "s",
    "h:m:s",
    "max_rss",
    "max_vms",
    "max_uss",
    "max_pss",
    "io_in",
    "io_out",
    "mean_load",
    "cpu_time",
]


def benchmark(
    root: Path, job: str, *, seconds: float, busy: float = 1.0, run: str = "demo", newness: int = 0
) -> Path:
    """Write a benchmark file as Snakemake does, of a job at ``logs/{run}/{job}.tsv``."""
    path = root / f"logs/{run}/{job}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    looked = seconds // 0.5 * 0.5 if seconds < 15.5 else 15.5 + (seconds - 15.5) // 30 * 30
    row = [f"{seconds:.2f}", "0:00:00", "321.5", *["0"] * 5, "99.0", f"{busy * looked:.2f}"]
    path.write_text("\t".join(HEADER) + "\n" + "\t".join(row) + "\n")
    os.utime(path, (newness, newness))
    return path


def add_samples(root: Path, run: str = "demo") -> Path:
    """Write a dataset of a run, whose archive is returned."""
    folder = root / f"results/{run}/datasets/tiny"
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    data = Dataset("tiny", chance.standard_normal((N, D)), np.arange(N) % 3, "none")
    save_prepared(folder / "all.npz", data)
    sheet = datasets.describe(data, available=N, seed=None, balanced=False)
    datasets.save_datasheet(folder / "all.json", sheet)
    return folder / "all.npz"


def add_job(root: Path, rule: str, run: str = "demo") -> str:
    """Compute the cells of a job and return its place, which its benchmark file has as well."""
    data = add_samples(root, run)
    call = ["--data", str(data), "--dataset", "tiny", "--activation", "relu"]
    call += ["--seeds", "1", "32"]
    if rule in CELLS:
        main, options, folder, _ = CELLS[rule]
        output = f"--output={root}/results/{run}/{folder}/tiny/relu.parquet"
        assert main([*call, *options.split(), "--depths", "0", "2", output]) == 0
        return f"{rule}/tiny/relu"
    main, options, folder, _ = NETWORKS[rule]
    place = "fig3/tiny/mlp/relu/depth-2"
    call += ["--experiment", "fig3", "--depth", "2", "--width", str(WIDTH), *options.split()]
    assert main([*call, f"--output={root}/results/{run}/{folder}/{place}.parquet"]) == 0
    return f"{rule}/{place}"

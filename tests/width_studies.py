"""Small studies of wide networks, by the programs that make them."""

from pathlib import Path

import aggregate_table
import fit_width_slopes
import measure_linearity
import measure_orthogonality

from tests.support.sources import write_prepared

HIDDEN = {"two_layer": ["m"], "deep": ["m", "m", "m"], "bottleneck": ["12", "m", "10"]}
HIDDEN |= {"narrow_middle": ["m", "2", "m"], "densenet": ["m", "m"]}


def archive(folder: Path) -> Path:
    """Return the file of 12 samples with 5 features, of three classes."""
    write_prepared(folder / "all.npz", n=12, d=5)
    return folder / "all.npz"


def measure(
    study, data, folder, *options, architecture="deep", activation="tanh", widths=(3, 6), seeds=(1,)
) -> int:
    """Return the exit status of a study's program for one network."""
    program = {"orthogonality": measure_orthogonality, "linearity": measure_linearity}[study]
    output = folder / study / "tiny" / architecture / f"{activation}.parquet"
    arguments = [f"--data={data}", "--dataset=tiny", "--samples=4", "--steps=3"]
    arguments += [f"--architecture={architecture}", f"--activation={activation}"]
    arguments += ["--hidden", *HIDDEN[architecture], "--widths", *map(str, widths)]
    arguments += ["--dense"] if architecture == "densenet" else []
    arguments += ["--radii", "1", "2", "--directions=2"] if study == "linearity" else []
    arguments += ["--seeds", *map(str, seeds), f"--output={output}", *options]
    return program.main(arguments)


def aggregate(study: str, folder: Path) -> int:
    """Return the exit status of the program that makes a study's table of all its rows."""
    rows = sorted(map(str, (folder / study).glob("**/*.parquet")))
    arguments = [f"--table={study}", f"--output={folder / study}.parquet", "--rows", *rows]
    return aggregate_table.main(arguments)


def fit(folder: Path) -> int:
    """Return the exit status of the program that fits the slopes of the tables in a folder."""
    tables = [f"--{study}={folder / study}.parquet" for study in ("orthogonality", "linearity")]
    return fit_width_slopes.main([*tables, f"--output={folder / 'width_slopes.parquet'}"])

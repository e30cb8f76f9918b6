"""Every notebook is committed clean and draws its figure from tables of any shape."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import collect_paper_figures
import measure_precision
import run_claim_experiments
import nbformat
import numpy as np
import pytest
import run_notebook

from ntk_workflow.figures.parameters import from_words, to_words
from tests.plans import Wildcards, plan_of
import yaml
from docutils.core import publish_parts
from matplotlib.mathtext import MathTextParser

from ntk_conditioning.theory import bounds_vs_exact
from ntk_workflow.figures import captions
from ntk_conditioning import tables
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.bounds import BOUNDS
from ntk_conditioning.tables.conditioning import CONDITIONING, summarize
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_conditioning.tables.training import (
    LEARNING_RATES,
    TRAINING,
    TRAINING_KERNELS,
    curve_rows,
    select_rates,
)
from tests import width_studies

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
FIGURES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "figures.yaml").read_text())
NOTEBOOKS = [str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.ipynb")]


# --- as committed ---------------------------------------------------------------------------------


def test_every_figure_has_a_notebook() -> None:
    assert sorted(NOTEBOOKS) == sorted(FIGURES)


def test_every_figure_has_a_caption_and_nothing_else_has() -> None:
    found = [str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.rst")]
    assert sorted(found) == sorted(FIGURES)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_caption_has_a_title_and_formulas_that_can_be_set(figure: str) -> None:
    caption = captions.read(FOLDER / f"{figure}.rst")
    assert re.match(r"\*\*[A-Z][^*]+\.\*\* [A-Z]", caption)
    assert 40 < len(caption.split()) < 150
    # Snakemake's report takes captions for templates, and sets formulas by docutils.
    assert not {"{{", "{%", "{#"} & {caption[k : k + 2] for k in range(len(caption))}
    strict = {"halt_level": 2, "math_output": "MathML"}
    assert "<math" in publish_parts(caption, writer="html5", settings_overrides=strict)["body"]
    for formula in re.findall(r"\$([^$]+)\$", captions.markdown(caption)):
        MathTextParser("path").parse(f"${formula}$")


@pytest.mark.parametrize("figure", NOTEBOOKS)
def test_a_notebook_is_committed_clean(figure: str) -> None:
    path = FOLDER / f"{figure}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    cells = notebook["cells"]
    assert len(cells) <= 8
    assert cells[0]["cell_type"] == "markdown"
    assert cells[0]["source"][0].startswith("# ")
    for cell in cells:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cell["id"]), "an id that a person can read"
        assert set(cell["metadata"]) <= {"tags"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert [cell["id"] for cell in cells if "parameters" in cell["metadata"].get("tags", [])] == [
        "parameters"
    ]


@pytest.mark.parametrize("figure", NOTEBOOKS)
def test_the_default_parameters_are_those_of_the_demo_run(figure: str) -> None:
    (cell,) = (
        cell
        for cell in nbformat.read(FOLDER / f"{figure}.ipynb", as_version=4).cells
        if cell.id == "parameters"
    )
    found: dict[str, Any] = {}
    exec(cell.source, {}, found)
    assert found == from_words(plan_of({}).figure_parameters(Wildcards(figure=figure)))


# --- rendered -------------------------------------------------------------------------------------


def write_tables(
    folder: Path,
    *,
    kappa: dict[tuple[str, str], Sequence[float | None]],
    depths: Sequence[int],
    seeds: Sequence[int],
    kernels: Sequence[str],
    parallel: Sequence[str] = (),
    extremes: Sequence[str] = (),
) -> None:
    """Write the tables of a run in which κ of (dataset, activation) is as given by depth.

    A missing κ is a kernel of half rank; with 0 only the first seed's is. The datasets named in
    ``parallel`` have a pair of samples at angle 0; of those in ``extremes`` only the extreme
    eigenvalues are known, but for linear networks.
    """
    spectra, angles, n = [], [], 12
    for kernel in ("empirical_ntk", "infinite_ntk"):
        width = 8 if kernel == "empirical_ntk" else None
        for (dataset, activation), values in kappa.items():
            for depth, value in zip(depths, values, strict=True):
                point = {"kernel": kernel, "dataset": dataset, "activation": activation}
                point |= {"depth": depth, "width": width, "dtype": "float64", "d": 5}
                for k, seed in enumerate(seeds):
                    known = None if value is None or (value == 0 and k == 0) else value or 1e4
                    eigenvalues = np.geomspace(1, 1 / (known or 10) / (1 + k / 4), n)
                    if known is None:
                        eigenvalues[n // 2 :] = 0
                    missing: dict[str, str | None] = {}
                    if dataset in extremes and activation != "linear":
                        missing = {"method": "extremes", "eigenvalues": None}
                        missing |= {"effective_rank": None}
                        if known is None:
                            missing |= {"lambda_min": None, "lambda_min_error": None}
                    spectra.append(
                        {
                            **point,
                            "seed": seed,
                            "block": 0,
                            "n": n,
                            "method": "spectrum",
                            "lambda_max": 1.0,
                            "lambda_max_error": n * 2.0**-52,
                            "lambda_min": eigenvalues[-1],
                            "lambda_min_error": n * 2.0**-52,
                            "resolution_floor": n * 2.0**-52,
                            "numerical_rank": int((eigenvalues > 0).sum()),
                            "kappa": known and 1 / eigenvalues[-1],
                            "kappa_error": known and n * 2.0**-52 / eigenvalues[-1],
                            "kappa_nonzero": 1 / eigenvalues[eigenvalues > 0][-1],
                            "effective_rank": 3.0,
                            "reduced_precision": False,
                            "eigenvalues": eigenvalues.tolist(),
                        }
                        | missing
                    )
                for k, seed in enumerate(seeds if width else [None]):
                    angle = 0.0 if dataset in parallel else (1 + depth) * (1 + 0.1 * k)
                    pair = {"i": 0, "j": 1, "duplicates": 0, "candidates": 1}
                    pair["min_angle_error"] = None if width else 1e-12
                    angles.append({**point, **pair, "seed": seed, "n": 60, "min_angle": angle})
    main = tables.from_rows(SPECTRA, [row for row in spectra if row["kernel"] in kernels])
    study = tables.from_rows(SPECTRA, [row for row in spectra if row["kernel"] == "infinite_ntk"])
    smallest = tables.from_rows(ANGLES, [row for row in angles if row["kernel"] in kernels])
    tables.write(folder / "spectra.parquet", SPECTRA, main)
    tables.write(folder / "conditioning.parquet", CONDITIONING, summarize(main))
    tables.write(folder / "activation_study.parquet", CONDITIONING, summarize(study))
    tables.write(folder / "angles.parquet", ANGLES, smallest)


def write_precision(folder: Path, *, depths: Sequence[int], seeds: Sequence[int]) -> None:
    """Write the table of a small precision study."""
    code = measure_precision.main(
        [
            *("--samples=4", "--dim=6", "--width=16", "--points=6"),
            *("--depths", *map(str, depths)),
            *("--seeds", *map(str, seeds)),
            *("--output", str(folder / "precision.parquet")),
        ]
    )
    assert code == 0


def write_statements(folder: Path, *, depths: Sequence[int], seeds: Sequence[int]) -> None:
    """Write the table of small numerical experiments."""
    code = run_claim_experiments.main(
        [
            *("--papers", "liu2023relu", "--widths", "16", "64"),
            *("--depths", *map(str, depths), "--seeds", *map(str, seeds)),
            *("--output", str(folder / "claim_experiments.parquet")),
        ]
    )
    assert code == 0


#: The networks of agarwal2021deep's experiments.
DEEP = {
    "deep_normalized": [("fc_batch_norm", "relu"), ("fc_layer_norm", "relu")],
    "deep_fc": [("fc", "normrelu"), ("fc", "selu")],
    "resnet_normalized": [("resnet_batch_norm", "relu"), ("resnet_layer_norm", "relu")],
    "resnet": [("resnet", "normrelu"), ("resnet", "selu")],
    "fixup": [("resnet_fixup", "relu")],
    "fixup_normrelu": [("resnet", "normrelu")],
}


def write_training(
    folder: Path,
    *,
    fig3: Sequence[str],
    code: Sequence[str] = (),
    descent: Sequence[str] = (),
    activations: Sequence[str],
    depths: Sequence[int],
    seeds: Sequence[int],
    rates: Sequence[float],
    diverging: Callable[[int, float], bool],
    deep: Sequence[str] = (),
) -> None:
    """Write the tables of trainings on the datasets of three experiments.

    Losses fall with rate and depth. A network for whose depth and rate ``diverging`` is true has
    none after the first epoch, and of the deepest with the second lowest rate only the first seed
    diverges. The experiments of `DEEP` are on the datasets ``deep``.
    """
    rows, kernels, epochs = [], [], [0, 2, 4, 5]
    experiments = {"fig3": fig3, "fig3_code": code, "gradient_descent": descent}
    points = [
        {"experiment": name, "dataset": dataset, "model": "mlp", "activation": activation}
        for name, datasets in experiments.items()
        for dataset in datasets
        for activation in activations
    ]
    points += [
        {"experiment": name, "dataset": dataset, "model": model, "activation": activation}
        for dataset in deep
        for name, networks in DEEP.items()
        for model, activation in networks
    ]
    for point, depth, seed in product(points, depths, seeds):
        point |= {"depth": depth}
        square = point["experiment"] == "gradient_descent"
        tested = point["model"] != "mlp"
        known = {"n": 20, "n_train": 20, "width": 8, "lambda_max": 40.0, "lambda_min": 0.5}
        if not tested:
            kernels.append(
                {**point, "seed": seed, **known, "kappa": 80.0, "critical_learning_rate": 1.0}
                | ({"kappa": None, "lambda_min": None} if depth == 0 else {})
            )
        for rate in rates[:1] if square else rates:
            partly = depth == depths[-1] and rate in rates[1:2] and seed == seeds[0]
            gone = (diverging(depth, rate) or partly) and not square
            curve = [3 * math.exp(-rate * (depth + 1) * epoch / 4) + seed / 1e3 for epoch in epochs]
            metrics = {
                name: np.array([*curve[:1], *[np.nan if gone else v for v in curve[1:]]])
                for name in ("train_loss", "train_accuracy", "gradient_norm")
            }
            shares = 1 - metrics["train_loss"] / 8 if tested else np.full(4, np.nan)
            metrics |= {name: shares for name in ("test_accuracy", "test_dot_product")}
            metrics |= {"test_loss": np.full(4, np.nan)}
            labels = {**point, "width": 8, "input_scale": "none", "batch_size": 20}
            labels |= {"loss": "square" if square else "cross_entropy"}
            labels |= {"outputs": "scalar" if square else "classes", "dtype": "float32"}
            labels |= {"n": 20, "n_test": 0, "d": 5, "classes": 3, "tf32": False}
            labels |= {"momentum": 0.0, "weight_decay": 0.0, "decay_at": "none"}
            labels |= {"decay_factor": 0.1, "augmentation": "none", "image": "none"}
            labels |= {"mixed_precision": False}
            spread = {
                name: dict(zip(epochs, values, strict=True)) for name, values in metrics.items()
            }
            rows += curve_rows(
                labels,
                seed=seed,
                rate=rate,
                steps_per_epoch=1,
                metrics=spread,
                diverged=2 if gone else -1,
                epochs=epochs,
            )
    training = tables.from_rows(TRAINING, rows)
    tables.write(folder / "training.parquet", TRAINING, training)
    table = tables.from_rows(TRAINING_KERNELS, kernels)
    tables.write(folder / "training_kernels.parquet", TRAINING_KERNELS, table)
    rules = dict.fromkeys([*experiments, *DEEP], ("final_loss", 0.1))
    chosen = select_rates(training, table, rules)
    tables.write(folder / "learning_rates.parquet", LEARNING_RATES, chosen)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Parameters for tables with everything: several of each axis, and each kind of gap."""
    folder = tmp_path_factory.mktemp("rich")
    kappa: dict[tuple[str, str], Sequence[float | None]] = {
        ("synthetic", "relu"): [None, 1e5, 3e4, 1e4],
        ("synthetic", "linear"): [None] * 4,
        ("fashion_mnist", "relu"): [1e6, 0, None, 1e5],  # 0: of one seed only
        ("fashion_mnist", "linear"): [1e6, 2e6, 4e6, 8e6],
        ("synthetic", "normalized_tanh"): [1e3, 1e2, 50, 20],
        ("fashion_mnist", "normalized_tanh"): [1e3, 1e2, 0, 0],
        ("synthetic", "swish"): [None] * 4,
        ("fashion_mnist", "swish"): [1e8, 1e9, None, None],
    }
    write_tables(
        folder,
        kappa=kappa,
        depths=[0, 1, 3, 12],
        seeds=[1, 32],
        kernels=["empirical_ntk", "infinite_ntk"],
        parallel=["fashion_mnist"],
    )
    write_precision(folder, depths=[0, 1, 2], seeds=[1, 32])
    write_statements(folder, depths=[1, 3], seeds=[1, 32])
    write_training(
        folder,
        fig3=["synthetic", "fashion_mnist", "elsewhere"],
        code=["synthetic", "fashion_mnist"],
        descent=["synthetic"],
        activations=["relu", "swish"],
        depths=[0, 1, 3, 12],
        seeds=[1, 32],
        rates=[0.1, 0.2, 0.4, 0.8],
        diverging=lambda depth, rate: depth * rate > 3,
        deep=["patches", "elsewhere"],
    )
    axes = {
        "datasets": ["synthetic", "fashion_mnist"],
        "activations": ["relu", "linear", "normalized_tanh", "swish"],
    }
    study = {**axes, "depths": [0, 1, 3, 12]}
    shallow = write_bounds(
        folder,
        dims={"synthetic_sphere": 40, "elsewhere": 5},  # without Assumption B there
        activations=["normrelu", "tanh", "normalized_relu", "erf", "relu"],
        depths=[1, 8, 64, 512],
    )
    studies = write_studies(folder, widths=[4, 8, 16], activations=["tanh", "softplus"])
    return {
        "folder": folder,
        **axes,
        "activation_study": study,
        "bounds_study": shallow,
        **studies,
    }


def write_studies(
    folder: Path, *, widths: Sequence[int], activations: Sequence[str]
) -> dict[str, Any]:
    """Write the tables of small studies of wide networks; return their parameters."""
    data = width_studies.archive(folder)
    names = {
        "orthogonality": ["deep", "bottleneck"],
        "linearity": ["two_layer", "deep", "narrow_middle", "densenet"],
    }
    if len(widths) == 1:
        names = dict.fromkeys(names, ["deep"])
    studies = {}
    for study, architectures in names.items():
        for architecture, activation in product(architectures, activations):
            given = {"architecture": architecture, "activation": activation, "widths": widths}
            assert not width_studies.measure(study, data, folder, **given)
        grid = {"architectures": architectures, "activations": activations, "widths": widths}
        assert not width_studies.aggregate(study, folder)
        studies[f"{study}_study"] = grid | {"datasets": ["tiny"], "radii": [1, 2]}
    hidden = {name: {"hidden": layers} for name, layers in width_studies.HIDDEN.items()}
    return {"architectures": hidden, **studies}


def write_bounds(
    folder: Path, *, dims: dict[str, int], activations: Sequence[str], depths: Sequence[int]
) -> dict[str, Any]:
    """Write the comparisons with bounds of 12 random samples in some dimensions; return the study."""
    rows = []
    for dataset, d in dims.items():
        x = np.random.default_rng(0).standard_normal((12, d))
        x /= np.linalg.norm(x, axis=1)[:, None]
        for name in activations:
            labels = {"dataset": dataset, "activation": name}
            found = bounds_vs_exact.compare(x, depths=depths, activation=name)
            rows += [labels | asdict(comparison) for comparison in found]
    tables.write(folder / "bounds.parquet", BOUNDS, tables.from_rows(BOUNDS, rows))
    return {"datasets": list(dims), "activations": list(activations), "depths": list(depths)}


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Parameters for tables with one dataset, one seed, one depth, one kernel, and no κ at all."""
    folder = tmp_path_factory.mktemp("poor")
    write_tables(
        folder,
        kappa={("own_data", "linear"): [None]},
        depths=[1],
        seeds=[7],
        kernels=["empirical_ntk"],
    )
    write_precision(folder, depths=[0], seeds=[7])
    write_statements(folder, depths=[1], seeds=[7])
    write_training(
        folder,
        fig3=["own_data"],
        activations=["linear"],
        depths=[1],
        seeds=[7],
        rates=[0.1],
        diverging=lambda depth, rate: True,
        deep=["own_data"],
    )
    axes = {"datasets": ["own_data"], "activations": ["linear"]}
    return {
        "folder": folder,
        **axes,
        "activation_study": {**axes, "depths": [1]},
        "bounds_study": write_bounds(
            folder, dims={"own_data": 2}, activations=["relu"], depths=[1]
        ),
        **write_studies(folder, widths=[4], activations=["relu"]),
    }


@pytest.fixture(scope="module", params=["all", "some"])
def large(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Parameters for tables of kernels too large for whole spectra: all of them or one dataset."""
    folder = tmp_path_factory.mktemp(f"large-{request.param}")
    datasets = ["synthetic", "fashion_mnist"]
    activations = ["relu", "swish"] + (["linear"] if request.param == "some" else [])
    kappa: dict[tuple[str, str], Sequence[float | None]] = {
        (dataset, activation): [None, 1e6, 0] for dataset in datasets for activation in activations
    }
    write_tables(
        folder,
        kappa=kappa,
        depths=[0, 1, 3],
        seeds=[1, 32],
        kernels=["empirical_ntk", "infinite_ntk"],
        extremes=datasets if request.param == "all" else datasets[:1],
    )
    write_training(
        folder,
        fig3=datasets,
        activations=activations,
        depths=[1, 3],
        seeds=[1, 32],
        rates=[0.1, 0.2],
        diverging=lambda depth, rate: False,
    )
    axes = {"datasets": datasets, "activations": activations}
    study = {**axes, "depths": [0, 1, 3]}
    return {"folder": folder, **axes, "activation_study": study}


def render(
    figure: str, given: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """Return the bytes of the executed notebook and the figure's files, by suffix."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.chdir(ROOT)
    files = {suffix: folder / f"figure.{suffix}" for suffix in ("pdf", "png", "ipynb")}
    spec = FIGURES[figure]
    parameters = {
        **{f"{name}_table": str(given["folder"] / f"{name}.parquet") for name in spec["tables"]},
        **{name: given[name] for name in spec.get("parameters", [])},
        "pdf": str(files["pdf"]),
        "png": str(files["png"]),
    }
    code = run_notebook.main(
        [
            str(FOLDER / f"{figure}.ipynb"),
            *("--parameters", *to_words(parameters)),
            *("--output", str(files["ipynb"])),
            *("--failed", str(folder / "failed.ipynb")),
            *("--outputs", str(files["pdf"]), str(files["png"])),
        ]
    )
    assert code == 0
    return {suffix: path.read_bytes() for suffix, path in files.items()}


def texts(executed: bytes, cell_id: str) -> str:
    """Return what a cell of an executed notebook shows as text."""
    notebook = nbformat.reads(executed.decode(), as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figure", "tables_of"),
    [
        *((figure, "rich") for figure in NOTEBOOKS),
        *((figure, "poor") for figure in NOTEBOOKS if FIGURES[figure]["tables"]),
    ],
)
def test_a_notebook_draws_its_figure(
    figure: str,
    tables_of: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = render(figure, request.getfixturevalue(tables_of), tmp_path, monkeypatch)
    assert made["pdf"].startswith(b"%PDF")
    assert made["png"].startswith(b"\x89PNG")
    collect_paper_figures.printable(tmp_path / "figure.pdf")
    executed = nbformat.reads(made["ipynb"].decode(), as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output.text for output in outputs if output.output_type == "stream"]  # no warnings


@pytest.mark.slow
@pytest.mark.parametrize(
    "figure",
    [name for name in NOTEBOOKS if {"spectra", "conditioning"} & set(FIGURES[name]["tables"])],
)
def test_a_notebook_draws_what_is_known_of_large_kernels(
    figure: str, large: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = render(figure, large, tmp_path, monkeypatch)
    assert made["pdf"].startswith(b"%PDF")
    executed = nbformat.reads(made["ipynb"].decode(), as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert not [output.text for output in outputs if output.output_type == "stream"]  # no warnings


@pytest.mark.slow
def test_the_same_tables_give_the_same_bytes_and_no_number_for_a_missing_kappa(
    rich: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = "liu2023relu/fig2_conditioning_vs_depth"
    made = []
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        made.append(render(figure, rich, tmp_path, monkeypatch))
    assert made[0] == made[1]
    assert re.search(r"1\s+–\s+–\s", texts(made[0]["ipynb"], "numbers"))

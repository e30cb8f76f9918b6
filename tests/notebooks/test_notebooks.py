"""Every notebook is committed clean and draws its figure from tables of any shape."""

import ast
import json
import re
import sys
from dataclasses import asdict
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import collect_paper_figures
import matplotlib
import measure_precision
import nbformat
import numpy as np
import pandas as pd
import pytest
import run_claim_experiments
import run_notebook
import yaml
from docutils.core import publish_parts
from matplotlib import pyplot
from matplotlib.mathtext import MathTextParser

from ntk_conditioning import tables
from ntk_conditioning.kernels import tabulated
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting.style import SavedFigure
from ntk_conditioning.spectra.conditioning import conditioning, spectra_row
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.summary import summarize
from ntk_conditioning.theory import bounds_vs_exact, phase
from ntk_conditioning.theory.finite_width import fitted_laws
from ntk_conditioning.training.curves import POINT_KEYS, along_rows, curve_rows
from ntk_conditioning.training.kernels_along import ALONG
from ntk_conditioning.training.learning_rates import select_rates
from ntk_conditioning.training.predicted_times import known as known_losses
from ntk_conditioning.training.predicted_times import times
from ntk_conditioning.training.repairs import repairs
from ntk_workflow.figures import captions
from ntk_workflow.named_values import from_words, named_values, to_words
from tests import width_studies
from tests.plans import Wildcards, plan_of
from tests.rows import plain, write

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
FIGURES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "figures.yaml").read_text())
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
every_figure = pytest.mark.parametrize("figure", FIGURES)


@pytest.mark.parametrize("suffix", ["ipynb", "rst"])
def test_every_figure_has_a_notebook_and_a_caption_and_nothing_else_has(suffix):
    names = [str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob(f"*/*.{suffix}")]
    assert sorted(names) == sorted(FIGURES)


@every_figure
def test_a_caption_has_a_title_and_formulas_that_can_be_set(figure):
    caption = captions.read(FOLDER / f"{figure}.rst")
    assert re.match(r"\*\*[A-Z][^*]+\.\*\* (\(a\) )?[A-Z]", caption)
    assert 40 < len(caption.split()) < 150
    # Snakemake's report takes captions for templates, and sets formulas by docutils.
    assert not {"{{", "{%", "{#"} & {caption[k : k + 2] for k in range(len(caption))}
    strict = {"halt_level": 2, "math_output": "MathML"}
    assert "<math" in publish_parts(caption, writer="html5", settings_overrides=strict)["body"]
    for formula in re.findall(r"\$([^$]+)\$", captions.markdown(caption)):
        MathTextParser("path").parse(f"${formula}$")


@every_figure
def test_a_notebook_is_committed_clean_with_the_demos_parameters(figure):
    notebook = json.loads((FOLDER / f"{figure}.ipynb").read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"] == {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    assert len(cells) == len(notebook["cells"]) <= 8
    first = notebook["cells"][0]
    assert (first["cell_type"], first["source"][0][:2]) == ("markdown", "# ")
    for name, cell in cells.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name), "an id that a person can read"
        assert cell["metadata"] == ({"tags": ["parameters"]} if name == "parameters" else {})
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    defaults: dict[str, Any] = {}
    exec("".join(cells["parameters"]["source"]), {}, defaults)
    assert defaults == from_words(plan_of({}).figure_parameters(Wildcards(figure=figure)))


KERNELS = ("empirical_ntk", "infinite_ntk")


def write_spectra(folder, kappa, *, depths, seeds, kernels=KERNELS, parallel=(), extremes=()):
    """Write tables of spectra and angles in which κ of (dataset, activation) is as given.

    A missing κ is a kernel of half rank; with 0 only the first seed's is. Of datasets in
    ``extremes`` only extreme eigenvalues are known; those in ``parallel`` have an angle of 0.
    """
    spectra, angles, n = [], [], 12
    for kernel, (names, values) in product(KERNELS, kappa.items()):
        dataset, activation = names
        width = 8 if kernel == "empirical_ntk" else None
        point = {"dataset": dataset, "activation": activation, "kernel": kernel, "width": width}
        cells = product(zip(depths, values, strict=True), enumerate(seeds))
        for (depth, value), (k, seed) in cells:
            cell = point | {"depth": depth, "seed": seed}
            known = None if value is None or (value == 0 and k == 0) else value or 1e4
            eigenvalues = np.geomspace(1, 1 / (known or 10) / (1 + k / 4), n)
            eigenvalues[n // 2 :] *= known is not None
            measure = extreme_conditioning if dataset in extremes else conditioning
            row = spectra_row(measure(np.diag(eigenvalues)), eigenvalues=True)
            spectra.append(plain("spectra", **cell, **row))
            angle = 0.0 if dataset in parallel else (1 + depth) * (1 + 0.1 * k)
            cell |= {"min_angle": angle, "min_angle_error": None if width else 1e-12}
            if width or k == 0:
                angles.append(cell | ({} if width else {"seed": None}))
    main, study = (
        tables.from_rows("spectra", [row for row in spectra if row["kernel"] in names])
        for names in (kernels, ["infinite_ntk"])
    )
    tables.write(folder / "spectra.parquet", "spectra", main)
    tables.write(folder / "conditioning.parquet", "conditioning", summarize(main))
    tables.write(folder / "activation_study.parquet", "conditioning", summarize(study))
    write(folder / "angles.parquet", "angles", *(row for row in angles if row["kernel"] in kernels))


SOME = ["relu", "linear", "normalized_tanh", "swish"]
#: The networks of agarwal2021deep's experiments.
DEEP = {
    "deep_normalized": [("fc_batch_norm", "relu"), ("fc_layer_norm", "relu")],
    "deep_fc": [("fc", "normrelu"), ("fc", "selu")],
    "resnet_normalized": [("resnet_batch_norm", "relu"), ("resnet_layer_norm", "relu")],
    "resnet": [("resnet", "normrelu"), ("resnet", "selu")],
    "fixup": [("resnet_fixup", "relu")],
    "fixup_normrelu": [("resnet", "normrelu")],
}


def write_training(folder, *, experiments, activations, depths, seeds, rates, deep, diverging):
    """Write tables of trainings of ``experiments`` on their datasets, of `DEEP` on ``deep``.

    Losses fall; where ``diverging`` is true of depth and rate there are none after the first epoch.
    """
    mlps = [("mlp", activation) for activation in activations]
    points = [(e, x, *net) for e in experiments for x in experiments[e] for net in mlps]
    runs = [*product(points, depths, seeds)]
    points = [(e, x, *net) for e in DEEP for x in deep for net in DEEP[e]]
    runs += [*product(points, depths[-2:], seeds)]
    rows: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    along: list[dict[str, Any]] = []
    kernels, t = [], np.arange(6)
    for names, depth, seed in runs:
        point = dict(zip(POINT_KEYS, (*names, depth), strict=True)) | {"width": 8, "n": 20}
        square, tested = names[0] == "gradient_descent", names[2] != "mlp"
        loss, outputs = ("square", "scalar") if square else ("cross_entropy", "classes")
        labels = plain("training", **point, loss=loss, outputs=outputs, batch_size=20)
        labels["rate_unit"] = "critical" if square else "one"
        if not tested:
            kernel = {"n_train": 20, "lambda_max": 40.0, "critical_learning_rate": 1.0}
            kernel |= {"lambda_min": 0.5, "kappa": 80.0} if depth else {}
            kernels.append(point | kernel | {"seed": seed})
        for rate in rates[:1] if square else rates:
            # of the deepest with the second lowest rate only the first seed diverges
            partly = depth == depths[-1] and rate in rates[1:2] and seed == seeds[0]
            gone = (diverging(depth, rate) or partly) and not square
            losses = 3 * np.exp(-rate * (depth + 1) * t / 4) + seed / 1e3
            losses[1:] += np.nan if gone else 0
            metrics = dict.fromkeys(("train_loss", "train_accuracy", "gradient_norm"), losses)
            if tested:
                metrics |= dict.fromkeys(("test_accuracy", "test_dot_product"), 1 - losses / 8)
            step = rate * (1 + seed / 1e4) if square else rate  # every seed has its own
            network = {"seed": seed, "relative_rate": rate, "rate": step}
            network |= {"diverged": 2 if gone else -1}
            epochs = {"epochs": [0, 2, 4, 5], "steps_per_epoch": 1}
            rows += curve_rows(labels, metrics=metrics, **network, **epochs)
            if not tested:
                method = {"method": "eigenvectors" if square else "flow"}
                curves: dict[str, Any] = {"epochs": [0, 2, 4, 5]}
                curves["train_loss"] = known_losses(losses[[0, 2, 4, 5]])
                curves["predicted_loss"] = known_losses(losses[[0, 2, 4, 5]] ** 1.1)
                curves |= times(curves["epochs"], curves["train_loss"])
                curves |= times(curves["epochs"], curves["predicted_loss"], prefix="predicted_")
                lists = {"ranks": [1, 2], "eigenvalues": [40, 0.5], "label_energy": [0.5, 1]}
                kappa = {"kappa": 80.0 / depth, "effective_kappa": 80.0} if depth else {}
                found = {"seed": seed, "relative_rate": rate, "learning_rate": step}
                found |= {"critical_learning_rate": 1.0}
                names_of = {n: labels[n] for n in ("loss", "batch_size", "rate_unit", *point)}
                of = names_of | found | method | curves | lists | kappa
                predictions.append(plain("predictions", **of))
                numbers = dict.fromkeys(ALONG, losses) | {"train_loss": losses}
                numbers |= {"kappa": losses * 100} if depth else {"kappa": losses * np.nan}
                numbers |= {"kernel_change": t / 9}
                measured = plain("kernels_along_training", **names_of | {"n_train": 20})
                along += along_rows(measured, metrics=numbers, **network, **epochs)
    write(folder / "training.parquet", "training", *rows)
    write(folder / "training_kernels.parquet", "training_kernels", *kernels)
    write(folder / "predictions.parquet", "predictions", *predictions)
    write(folder / "kernels_along_training.parquet", "kernels_along_training", *along)
    rules = dict.fromkeys([*experiments, *DEEP], ("final_loss", 0.1))
    known = (
        tables.read(folder / f"{t.name}.parquet", t)
        for t in (tables.get("training"), tables.get("training_kernels"))
    )
    tables.write(folder / "learning_rates.parquet", "learning_rates", select_rates(*known, rules))


def write_experiments(folder, *, precision, claims, seeds):
    """Write the rows of both programs that experiment, for these depths and seeds."""
    sizes = ["--samples=4", "--dim=6", "--width=16", "--points=6"]
    limits = ["--papers", "liu2023relu", "--widths", "16", "64"]
    for program, table, depths, options in (
        (measure_precision, tables.get("precision"), precision, sizes),
        (run_claim_experiments, tables.get("claim_experiments"), claims, limits),
    ):
        axes = ["--seeds", *map(str, seeds), "--depths", *map(str, depths)]
        assert program.main([*options, *axes, f"--output={folder}/{table.name}.parquet"]) == 0


def write_studies(folder, names, *, widths, sigmas):
    data = width_studies.archive(folder)
    hidden = {name: {"hidden": layers} for name, layers in width_studies.HIDDEN.items()}
    studies: dict[str, Any] = {"architectures": hidden}
    for study, architectures in names.items():
        longer = ["--label-scales", "1", "30", "--steps", "2", "3"]
        options = longer if study == "orthogonality" else []
        # linearity is drawn of the first activation
        for architecture, sigma in product(architectures, sigmas[: 1 + (study == "orthogonality")]):
            network = {"architecture": architecture, "activation": sigma, "widths": widths}
            assert not width_studies.measure(study, data, folder, *options, **network)
        assert not width_studies.aggregate(study, folder)
        grid = {"architectures": architectures, "activations": sigmas, "widths": widths}
        others = {"datasets": ["tiny"], "radii": [1, 2], "label_scales": [1, 30], "steps": [2, 3]}
        studies[f"{study}_study"] = grid | others
    return studies


def write_architectures(folder, models, *, depths, seeds, resolved):
    """Write kernels of networks; κ falls with depth, missing at the first unless ``resolved``."""
    names, rows = ["digits", "own_data"][: len(seeds)], []
    for dataset, model, activation, depth in product(names, models, ["relu", "erf"], depths):
        for seed in [*seeds, *([None] if model == "conv" else [])]:
            kappa = 10.0**8 / (1 + depth) if resolved or depth > depths[0] else None
            kernel = "infinite_ntk" if seed is None else "empirical_ntk"
            row = {"dataset": dataset, "model": model, "activation": activation, "depth": depth}
            row |= {"kernel": kernel, "seed": seed, "kappa": kappa, "min_angle": 1.0 + depth}
            low = None if kappa is None else 1 / kappa
            row |= {"lambda_max": 1.0, "lambda_min": low, "mean_diagonal": 0.5}
            rows.append(plain("architectures", **row))
    write(folder / "architectures.parquet", "architectures", *rows)
    return {"datasets": names, "models": models, "activations": ["relu", "erf"]}


def write_phase(folder, **study):
    """Write the table of a map, and return its part of a config."""
    rows = [
        row
        for shape, numbers in study["shapes"].items()
        for number, n, ratio in product(numbers, study["samples"], study["samples_per_dimension"])
        for name, seed in product(study["activations"], study["seeds"])
        for row in phase.measure(
            phase.RandomPlace(shape=shape, parameter=number, n=n, d=round(n / ratio)),
            activations.get(name),
            tabulated.tables(activations.get(name), study["depths"]),
            seed=seed,
        )
    ]
    n, x = max(study["samples"]), np.random.default_rng(3).standard_normal((30, 7))
    for (name, dataset), seed in product(product(study["activations"], study["datasets"]), [1]):
        functions = tabulated.tables(activations.get(name), study["depths"])
        place = phase.DataPlace(dataset, x, n)
        rows += phase.measure(place, activations.get(name), functions, seed=seed)
    write(folder / "phase.parquet", "phase", *rows)
    grid = product(study["activations"], [0, *study["depths"]], [4, 16, 64], [0.0, 0.5, 0.99])
    laws = [
        {"activation": name, "depth": depth, **phase.laws(function, c, n=n, d=d)}
        for name, depth, d, c in grid
        for function in tabulated.tables(activations.get(name), [depth]).values()
    ]
    write(folder / "phase_laws.parquet", "phase_laws", *laws)
    return study


def write_finite_width(folder, **study):
    """Write the tables of random networks, and return their part of a config."""
    rows = []
    kinds = product(study["datasets"], study["activations"], study["samples"], study["depths"])
    for (dataset, name, n, depth), width in product(kinds, study["widths"]):
        shift = depth / width
        row = {"dataset": dataset, "activation": name, "n": n, "d": 5, "width": width}
        row |= {"depth": depth, "seed": 1, "networks": 9, "resolved": 9, "infinite": 2.0}
        row |= {"mean": 2 + shift, "mean_error": 0.1 * shift, "variance": shift}
        row |= {"variance_error": shift / 9, "low": 1.9, "median": 2.0, "high": 3.0}
        if depth == width:
            row |= dict.fromkeys(("mean", "mean_error", "variance", "variance_error", "low"))
            row |= {"median": None, "high": None, "resolved": 0}
        rows.append(row)
    write(folder / "finite_width.parquet", "finite_width", *rows)
    laws = fitted_laws(pd.DataFrame(rows))
    write(folder / "finite_width_laws.parquet", "finite_width_laws", *laws)
    return study


def write_repairs(folder, **study):
    """Write the table of repairs of small datasets, and return its part of a config."""
    rng, rows = np.random.default_rng(5), []
    x, y = rng.standard_normal((12, 4)) + 1, np.eye(2)[rng.integers(2, size=12)]
    kinds = product(study["datasets"], study["activations"], study["depths"], study["seeds"])
    for dataset, name, depth, seed in kinds:
        size = {"activation": activations.get(name), "depth": depth}
        keys = {"dataset": dataset, "activation": name, "depth": depth, "seed": seed, "d": 4}
        found = repairs(x * seed, y, **size, directions=study["directions"])
        rows += [keys | asdict(each) for each in found]
    write(folder / "repairs.parquet", "repairs", *rows)
    return study


def write_bounds(folder, *, dims, activations, depths):
    rows = []
    for (dataset, d), name in product(dims.items(), activations):
        x = np.random.default_rng(0).standard_normal((12, d))
        x /= np.linalg.norm(x, axis=1)[:, None]
        comparisons = bounds_vs_exact.compare(x, depths=depths, activation=name)
        labels = {"dataset": dataset, "activation": name}
        rows += [labels | comparison for comparison in comparisons]
    write(folder / "bounds.parquet", "bounds", *rows)
    return {"datasets": list(dims), "activations": list(activations), "depths": list(depths)}


def rich(folder: Path) -> dict[str, Any]:
    """Several of each axis, and each kind of gap."""
    kappa = {
        ("synthetic", "relu"): [None, 1e5, 3e4, 1e4],
        ("synthetic", "linear"): [None] * 4,
        ("fashion_mnist", "relu"): [1e6, 0, None, 1e5],  # 0: of one seed only
        ("fashion_mnist", "linear"): [1e6, 2e6, 4e6, 8e6],
        ("synthetic", "normalized_tanh"): [1e3, 1e2, 50, 20],
        ("fashion_mnist", "normalized_tanh"): [1e3, 1e2, 0, 0],
        ("synthetic", "swish"): [None] * 4,
        ("fashion_mnist", "swish"): [1e8, 1e9, None, None],
        **{key: [None, 1e6, 0, 1e4] for key in product(["huge"], SOME)},
    }
    both, deep, names = ["synthetic", "fashion_mnist"], ["patches", "elsewhere"], ["relu", "swish"]
    depths = [0, 1, 3, 12]
    grid: dict[str, Any] = {"depths": depths, "seeds": [1, 32]}
    write_spectra(folder, kappa, parallel=["fashion_mnist"], extremes=["huge"], **grid)
    write_experiments(folder, precision=[0, 1, 2], claims=[1, 3], seeds=[1, 32])
    some = ["synthetic", "elsewhere"]
    mlps = {"fig3": some, "fig3_code": both, "gradient_descent": some[:1]}
    grid |= {"rates": [0.1, 0.2, 0.4, 0.8], "diverging": lambda depth, rate: depth * rate > 3}
    write_training(folder, experiments=mlps, activations=names, deep=deep, **grid)
    axes = {"datasets": [*both, "huge"], "activations": SOME}
    names = ["normrelu", "tanh", "normalized_relu", "erf", "relu"]
    dims = {"synthetic_sphere": 40, "elsewhere": 5}  # without Assumption B there
    bounds = write_bounds(folder, dims=dims, activations=names, depths=[1, 8, 64, 512])
    kinds = ["mlp", "conv", "resnet_fixup", "mine"]
    kinds = write_architectures(folder, kinds, depths=[0, 1, 8], seeds=[1, 2], resolved=True)
    studies = {"orthogonality": ["deep", "bottleneck"]}
    studies |= {"linearity": ["two_layer", "deep", "narrow_middle", "densenet"]}
    grids = write_studies(folder, studies, widths=[4, 8], sigmas=["tanh", "softplus"])
    axes |= {"activation_study": {**axes, "depths": depths}, "architectures_study": kinds}
    shapes = {"uniform": [0], "equicorrelated": [0.5, 0.99]}
    map_of = {"shapes": shapes, "activations": ["relu", "tanh"], "samples": [12, 16]}
    map_of |= {"samples_per_dimension": [0.25, 1, 4], "depths": [1, 8], "seeds": [1, 2]}
    map_of |= {"datasets": ["synthetic", "own_data"]}
    grids |= {"phase_study": write_phase(folder, **map_of)}
    wide = {"datasets": names, "activations": ["relu", "tanh"], "samples": [4, 8]}
    wide |= {"widths": [4, 16, 64], "depths": [1, 2, 4]}
    grids |= {"finite_width_study": write_finite_width(folder, **wide)}
    mended = {"datasets": names, "activations": ["relu", "erf"], "depths": [1, 4]}
    mended |= {"directions": [1, 2], "seeds": [1, 2]}
    grids |= {"repairs_study": write_repairs(folder, **mended)}
    return {**axes, "bounds_study": bounds, **grids}


def poor(folder: Path) -> dict[str, Any]:
    """One dataset, one seed, one depth, one kernel too large for spectra, and no κ at all."""
    data, names = ["own_data"], ["linear"]
    grid: dict[str, Any] = {"depths": [1], "seeds": [7]}
    kappa = {("own_data", "linear"): [None]}
    write_spectra(folder, kappa, kernels=["empirical_ntk"], extremes=data, **grid)
    write_experiments(folder, precision=[0], claims=[1], seeds=[32])
    grid |= {"rates": [0.1], "diverging": lambda depth, rate: True}
    write_training(folder, experiments={"fig3": data}, activations=names, deep=data, **grid)
    axes = {"datasets": data, "activations": names}
    bounds = write_bounds(folder, dims={"own_data": 2}, activations=["relu"], depths=[1])
    kinds = write_architectures(folder, ["mine"], depths=[1], seeds=[7], resolved=False)
    studies = {"orthogonality": ["deep"], "linearity": ["deep"]}
    grids = write_studies(folder, studies, widths=[4], sigmas=["relu"])
    map_of = {"shapes": {"uniform": [0], "equicorrelated": [0.5]}, "activations": ["linear"]}
    map_of |= {"samples": [16], "samples_per_dimension": [4], "depths": [1], "seeds": [7]}
    map_of |= {"datasets": ["own_data"]}
    grids |= {"phase_study": write_phase(folder, **map_of)}
    axes |= {"activation_study": {**axes, "depths": [1]}, "architectures_study": kinds}
    wide = {"datasets": data, "activations": names, "samples": [4], "widths": [1], "depths": [1]}
    grids |= {"finite_width_study": write_finite_width(folder, **wide)}
    mended = {"datasets": data, "activations": names, "depths": [1], "directions": [1]}
    grids |= {"repairs_study": write_repairs(folder, **mended, seeds=[7])}
    return {**axes, "bounds_study": bounds, **grids}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function that makes tables once; it returns notebooks' parameters for them."""

    @cache
    def make(what) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(what.__name__)
        return what(folder) | {"folder": folder}

    return make


CASES = [(name, rich) for name in FIGURES]
CASES += [(name, poor) for name, spec in FIGURES.items() if spec["tables"]]
#: What numbers stand below figures of the rich tables: none for a missing κ; every bound held.
NUMBERS = {
    "liu2023relu/fig2_conditioning_vs_depth": r"1\s+–\s+–\s",
    "beyond/convergence_vs_kappa": r"^(?:[^T]*\bTrue){12}[^T]*$",  # activations, depths and seeds
}


@pytest.fixture
def drawing(figure, what, made, tmp_path, monkeypatch):
    """A notebook's path and its parameters."""
    monkeypatch.chdir(ROOT)
    spec, given = FIGURES[figure], made(what)
    parameters = {name: given[name] for name in spec.get("parameters", [])}
    parameters |= {f"{name}_table": f"{given['folder']}/{name}.parquet" for name in spec["tables"]}
    parameters |= {suffix: str(tmp_path / f"figure.{suffix}") for suffix in ("pdf", "png")}
    with (
        matplotlib.rc_context(),
        pd.option_context("display.width", 400, "display.max_columns", 20),
    ):
        yield FOLDER / f"{figure}.ipynb", parameters
        pyplot.close("all")


def execute(notebook, parameters):
    """Return the variables of a notebook that was executed with these parameters."""
    names: dict[str, Any] = {}
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code":
            statements = ast.Interactive(ast.parse(cell.source).body)
            exec(compile(statements, cell.id, "single"), names)
            names |= parameters if cell.id == "parameters" else {}
    return names


@pytest.mark.parametrize(("figure", "what"), CASES)
def test_a_notebook_draws_its_figure(figure, what, drawing, monkeypatch, capsys):
    """Its warnings are errors here."""
    notebook, parameters = drawing
    words = named_values(to_words(parameters), option="--parameters")
    run_notebook.require_parameters(notebook, words)
    capsys.readouterr()
    values: list[Any] = []
    monkeypatch.setattr(sys, "displayhook", values.append)
    execute(notebook, words)
    assert any(isinstance(value, SavedFigure) for value in values)  # which is shown
    assert Path(parameters["png"]).read_bytes().startswith(b"\x89PNG")
    collect_paper_figures.printable(Path(parameters["pdf"]))
    assert capsys.readouterr() == ("", "")
    if what is rich:
        assert not re.search(r"Empty DataFrame|Series\(\[\]", repr(values))
        assert re.search(NUMBERS.get(figure, ""), repr(values[-1]))


def test_a_median_along_training_ends_where_most_kappas_are_not_resolved(tmp_path):
    rows = [
        plain("kernels_along_training", model="mlp", depth=1, seed=seed, epoch=epoch, kappa=kappa)
        for seed, last in enumerate([None, None, None, None, 101.0])
        for epoch, kappa in ((0, 10.0 + seed), (2, 20.0 + seed), (4, last))
    ]
    write(tmp_path / "along.parquet", "kernels_along_training", *rows)
    files = {"kernels_along_training_table": f"{tmp_path}/along.parquet"}
    files |= {suffix: f"{tmp_path}/figure.{suffix}" for suffix in ("pdf", "png")}
    with matplotlib.rc_context():
        names = execute(FOLDER / "beyond/kappa_along_training.ipynb", files)
    curve, _, arrows, *_ = names["axes"][0, 0].lines
    np.testing.assert_equal(curve.get_ydata(), [12, 22, np.nan])
    assert [*arrows.get_xdata()] == [4]
    (row,) = names["numbers"].to_dict("records")
    np.testing.assert_equal((row["kappa_first"], row["kappa_last"]), (12, np.nan))


@pytest.mark.parametrize(("figure", "what"), [("liu2023relu/fig2_conditioning_vs_depth", rich)])
def test_an_executed_notebook_shows_figure_and_numbers_and_no_warnings(figure, drawing, tmp_path):
    notebook, parameters = drawing
    executed, images = tmp_path / "executed.ipynb", [parameters["pdf"], parameters["png"]]
    arguments = [str(notebook), "--parameters", *to_words(parameters), f"--output={executed}"]
    arguments += [f"--failed={tmp_path / 'failed.ipynb'}", "--outputs", *images]
    assert run_notebook.main(arguments) == 0
    cells = nbformat.read(executed, as_version=4).cells
    shown = list(chain.from_iterable(cell.get("outputs", []) for cell in cells))
    assert {output.output_type for output in shown} == {"display_data"}  # nothing is printed
    assert any("image/png" in output.data for output in shown)
    assert re.search(NUMBERS[figure], "".join(output.data["text/plain"] for output in shown))

"""The bundle of a small run whose rows are made up, and ways to make another one of its files."""

import contextlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import aggregate_conditioning
import aggregate_table
import bagit
import bundle_run
import check_claims
import numpy as np
import record_run
import render_explorer
import run_notebook
import select_learning_rates

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.spectra.conditioning import (
    conditioning,
    conditioning_from_factor,
    spectra_row,
)
from ntk_conditioning.training.curves import curve_rows
from ntk_workflow.bundle import archive, bag, crate, jobs
from ntk_workflow.bundle.derivations import derivations
from ntk_workflow.plan import SOURCE, Plan
from tests import rows
from tests.plans import BASE, ROOT

RUN = "tiny"
RESULTS = f"results/{RUN}"
RECORDS = f"{RESULTS}/record"
JOBS = f"{RECORDS}/jobs.json"
FIGURES = ("liu2023relu/fig1_gradient_angle_vs_input_angle", "liu2023relu/fig4_g")
MODULES = (aggregate_conditioning, aggregate_table, check_claims, render_explorer)
PROGRAMS = {each.__name__: each.main for each in (*MODULES, select_learning_rates)}
STUDIES = [key for key in BASE if key.endswith("_study") or key == "claim_experiments"]
TRAINED = {"datasets": ["digits"], "activations": ["relu"], "depths": [1], "width": 8}
TRAINED |= {"seeds": [1, 2], "epochs": 3, "samples": 20, "loss": "square"}
TRAINED |= {"kernels_along": {"samples": 9, "points": 3}}
CONFIG = BASE | dict.fromkeys([*STUDIES, "activation_constants"])
CONFIG |= {"run": RUN, "catalogues": ["datasets.yaml"], "datasets": ["digits"], "papers": [RUN]}
CONFIG |= {"activations": ["relu"], "depths": [0, 1, 2], "seeds": [1, 2], "samples": 20}
CONFIG |= {"width": 8, "kernel_size": 6, "blocks": 2, "figures": [*FIGURES]}
CONFIG |= {"training": {"small": {**TRAINED, "learning_rates": [0.1, 0.5, 2.0]}}}
PAPER = """\
title: A paper
citation: Nobody, 2026
statements:
  Theorem 1:
  Figure 1:
claims:
  - name: kappa
    kind: theory
    place: Theorem 1
    statement: Kappa is above one.
    table: conditioning
    quantity: kappa_mean
    comparison: ">"
    target: 1
  - name: rates
    kind: experiment
    place: Figure 1
    statement: The best rate is the largest.
    table: learning_rates
    quantity: learning_rate
    comparison: "=="
    target: highest_rate
"""


def write_run(folder: Path) -> Plan:
    """Make a checkout and, in it, the results of the small run; return its plan."""
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        else:
            shutil.copyfile(ROOT / name, folder / name)
    (folder / f"papers/{RUN}.yaml").write_text(PAPER)
    with contextlib.chdir(folder):
        plan = Plan.from_config(CONFIG, source=folder)
        made: dict[str, jobs.Record] = {}

        def job(rule: str, program: str, outputs, inputs=(), *more: str, place="") -> None:
            code = plan.digest(f"scripts/{program}.py", *more)
            log = f"logs/{RUN}/{rule}/{place or len(made)}.log"
            record = jobs.Record(rule, tuple(inputs), (log,), code, 0, 60)
            made.update(dict.fromkeys(outputs, record))

        for rule, path, table, cells in made_up(plan):
            rows.write(Path(path), table, *cells)
            job(rule, rule, [path])
        for each in derivations(plan, with_rows=True):
            words = [*each.words]
            named = {**each.inputs, **{option: [name] for option, name in each.outputs.items()}}
            for option, names in named.items():
                words += [option, *(name.removeprefix("workflow/") for name in names)]
            assert PROGRAMS[each.program](words) == 0
            inputs = [
                name.removeprefix("workflow/") for files in each.inputs.values() for name in files
            ]
            job(each.program, each.program, each.outputs.values(), inputs)
        for figure in FIGURES:
            words = plan.figure_parameters(SimpleNamespace(figure=figure))
            files, notebook = plan.figure_files(figure), f"notebooks/{figure}.ipynb"
            executed = plan.path(notebook)
            argv = [notebook, "--parameters", *words, "--output", executed, "--failed", "failed"]
            assert run_notebook.main([*argv, "--outputs", *files]) == 0
            job("render_figure", "run_notebook", [*files, executed], (), notebook, place=figure)
        record = {name: plan.path("record", f"{name}") for name in ("config.yaml", "versions.json")}
        argv = ["--config", *plan.given_config(None), "--workflow-digest", plan.all_code(None)]
        argv += ["--config-output", record["config.yaml"]]
        assert record_run.main([*argv, "--versions-output", record["versions.json"]]) == 0
        job("record_run", "record_run", record.values())
        files = [*plan.results(None), *plan.all_rows(None)]
        Path(JOBS).write_text(json.dumps(jobs.provenance(files, made.get), indent=1) + "\n")
    return plan


def made_up(plan: Plan) -> Iterator[tuple[str, str, tables.Table, list[dict[str, Any]]]]:
    """Yield rule, path, table and cells of each row of the run."""
    rng = np.random.default_rng(0)
    dataset, seeds, width = "digits", CONFIG["seeds"], CONFIG["width"]
    for kernel in CONFIG["kernels"]:
        of = {"kernel": kernel, "dataset": dataset, "activation": "relu"}
        of |= {"d": 64, "width": width if kernel.startswith("empirical") else None}
        spectra, angles = [], []
        for depth in CONFIG["depths"]:
            for seed in seeds:
                cell = of | {"depth": depth, "seed": seed, "dtype": "float64"}
                angles.append(cell | {"n": 20, "min_angle": 1 + rng.random(), "i": 1, "j": 2})
                for block in range(2):
                    if depth:
                        f = rng.normal(size=(6, 9))
                        found = conditioning(f @ f.T)
                    else:  # the Gram matrix of samples in three dimensions of 64
                        drawn = np.random.default_rng([seed, block])
                        f = drawn.normal(size=(6, 3)) @ drawn.normal(size=(3, 64))
                        found = conditioning_from_factor(f)
                    columns = spectra_row(found, eigenvalues=block == 0)
                    spectra.append(cell | columns | {"block": block})
        infinite = "" if kernel.startswith("empirical") else "infinite_"
        row = f"{kernel}/{dataset}/relu.parquet"
        yield (
            f"compute_{infinite}spectrum",
            plan.path("spectra", row),
            tables.get("spectra"),
            spectra,
        )
        yield f"compute_{infinite}min_angle", plan.path("angles", row), tables.get("angles"), angles
    sheet = {"dataset": dataset, "n": 20, "d": 64, "scaling": "symmetric"}
    sheet |= {"classes": 10, "class_min": 2, "class_max": 2}
    sheets = [{**sheet, "seed": seed} for seed in seeds]
    yield "aggregate_table", plan.path("tables/datasets.parquet"), tables.get("datasets"), sheets
    of = {"experiment": "small", "dataset": dataset, "model": "mlp", "activation": "relu"}
    of |= {"depth": 1, "width": 8}
    settings = plan.training_settings(SimpleNamespace(**of))
    given = {k: v for k, v in vars(settings).items() if k in tables.get("training").schema.names}
    given |= {"decay_at": "none", "image": "none", "n": 20, "n_test": 0, "d": 64, "classes": 10}
    plain = rows.plain("training", **{**given, **of, "batch_size": 20})
    curves = [
        row
        for seed in seeds
        for rate in CONFIG["training"]["small"]["learning_rates"]
        for row in curve_rows(
            plain,
            seed=seed,
            relative_rate=rate,
            rate=rate,
            steps_per_epoch=1,
            metrics={"train_loss": rate ** -np.arange(4.0) * (1 + rng.random(4) / 9)},
            diverged=-1,
            epochs=range(4),
        )
    ]
    (path,) = plan.training_files("training", "small")
    yield "train_network", path, tables.get("training"), curves
    (path,) = plan.training_files("kernels_along_training", "small")
    kernel = {"n": 9, "n_train": 20, "lambda_max": 2.0, "lambda_min": 0.5, "kappa": 4.0}
    shared = {*tables.get("kernels_along_training").schema.names} & curves[0].keys() - kernel.keys()
    measured = [row for row in curves if row["epoch"] in (0, 1, 3)]
    along = [{name: row[name] for name in shared} | kernel for row in measured]
    yield "train_network", path, tables.get("kernels_along_training"), along
    kernels = []
    for seed in seeds:
        largest = 3 + rng.random()
        facts = {"n": 20, "n_train": 20, "lambda_max": largest, "lambda_min": 0.5}
        facts |= {"kappa": largest / 0.5, "critical_learning_rate": 2 * 20 / largest}
        kernels.append({**of, "seed": seed, **facts})
    (path,) = plan.training_files("training_kernels", "small")
    yield "train_network", path, tables.get("training_kernels"), kernels


def write_bundle(target: Path, scratch: Path, *options: str) -> Path:
    """Write the bundle of the small run; ``scratch`` is a folder that does not exist yet."""
    plan = write_run(scratch)
    with contextlib.chdir(scratch):
        argv = ["--run", RUN, "--files", *plan.results(None), "--jobs", JOBS]
        argv += ["--workflow", *plan.source_files(None), "--catalogues", "datasets.yaml"]
        argv += ["--datasets", *plan.used_datasets, *options, "--output", str(target)]
        assert bundle_run.main(argv) == 0
    return target


def altered(bundle: Path, scratch: Path, change, *, bagged=False, described=False) -> Path:
    """Return a bundle whose unpacked bag was changed; if asked for, with checksums made anew.

    ``bagged`` are those of the bag, ``described`` also those of the jobs and of the crate.
    """
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(scratch)
    folder, target = scratch / RUN, scratch / "altered.zip"
    change(folder)
    if described:
        describe(folder / "data")
    if bagged or described:
        shutil.move(folder / "data", scratch / "payload" / RUN)
        rebag(scratch / "payload" / RUN, folder)
        folder = scratch / "payload" / RUN
    archive.pack(folder, target)
    return target


def rebag(payload: Path, before: Path) -> None:
    """Turn a payload into a bag, with what the bag ``before`` says of itself."""
    info = bagit.Bag(str(before)).info
    bag.make(payload, {key: info[key] for key in info if key != "Payload-Oxum"})


def describe(payload: Path) -> None:
    """Give the jobs and the crate the checksums of a payload's files."""
    (jobs_file,) = payload.glob("results/*/record/jobs.json")
    record = json.loads(jobs_file.read_text())
    for name, facts in record["files"].items():
        path = next((p for p in (payload / name, payload / "workflow" / name) if p.is_file()), None)
        if path and "sha256" in facts:
            facts |= {"sha256": sha256(path), "bytes": path.stat().st_size}
    jobs_file.write_text(json.dumps(record, indent=1) + "\n")
    seal(payload)


def seal(payload: Path) -> None:
    """Give the crate the checksums of a payload's files, and of no others."""
    path = payload / crate.NAME
    metadata = json.loads(path.read_text())
    gone = set()
    for entity in metadata["@graph"]:
        file = payload / unquote(entity["@id"])
        if "sha256" in entity and "contentSize" in entity and file.is_file():
            entity |= {"sha256": sha256(file), "contentSize": str(file.stat().st_size)}
        elif "sha256" in entity and entity["@id"].startswith(("results/", "workflow/")):
            gone.add(entity["@id"])
    metadata["@graph"] = [each for each in metadata["@graph"] if each["@id"] not in gone]
    for entity in metadata["@graph"]:
        for key in {"hasPart", "result"} & entity.keys():
            listed = entity[key] if isinstance(entity[key], list) else [entity[key]]
            entity[key] = [each for each in listed if each["@id"] not in gone]
    path.write_text(json.dumps(metadata, indent=1, sort_keys=True, ensure_ascii=False) + "\n")

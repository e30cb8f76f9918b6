import re
import subprocess
import sys
from dataclasses import MISSING, asdict, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import record_run
from snakemake.iocontainers import Wildcards
from snakemake.utils import update_config

from ntk_workflow.config import read_yaml
from ntk_workflow.plan import datasets, figures, record, rows, trainings
from ntk_workflow.run import Run, changed_keys
from ntk_workflow.trainings.settings import TrainingSettings
from ntk_workflow.yaml_files import to_words
from tests.support.runs import ROOT, mistakes_of, run_of

MINE = {"datasets": ["digits"], "activations": ["relu"], "depths": [1], "epochs": 3}
MINE |= {"learning_rates": "auto"}
NETWORK = {"dataset": "digits", "model": "mlp", "activation": "relu", "depth": "1", "per_seed": ""}


def training_of(**values: str) -> Wildcards:
    """Return the wildcards of a job of the experiment `mine`."""
    return Wildcards(fromdict={"experiment": "mine", **NETWORK, **values})


def run_with(**experiment: Any) -> Run:
    """Return a run with an experiment `mine`, a change of MINE."""
    return run_of({"training": {"mine": MINE | experiment}})


BENT = """
from ntk_conditioning.networks.activations import Activation, register
value, slope = lambda z: z.tanh() + (z - 0.7).clamp(min=0), lambda z: 1 - z.tanh() ** 2 + (z > 0.7)
register(Activation("bent_tanh", value, slope, kinks=(0.7,)))
"""


@pytest.mark.usefixtures("activation_registry")
def test_a_curve_with_a_kink_elsewhere_wants_samples_of_one_norm(tmp_path):
    file = tmp_path / "bent_tanh.py"
    file.write_text(BENT)
    overlay = {"activation_files": [str(file)], "activations": ["bent_tanh"]}
    overlay |= {"kernels": ["infinite_ntk"], "overrides": {}, "kernel_size": 20}
    assert mistakes_of(run_of(overlay | {"datasets": ["digits_sphere"]})) == {}
    told = r"errors of 1\.\d\d% .* where norms differ.*unlike digits$"
    run = run_of(overlay | {"datasets": ["digits_sphere", "digits"]})
    with pytest.raises(SystemExit, match=told):
        rows.rows(run, "spectra")
    assert rows.rows(run, "orthogonality")  # a mistake stops its own study alone
    assert trainings.training_files(run, "training", "fig3")
    assert rows.user_activation_files(run, ["relu", "bent_tanh"]) == [str(file)]
    assert rows.user_activation_files(run, ["relu"]) == []
    programs = ["scripts/train_network.py"]
    assert rows.code(run, programs, [str(file)]) != rows.code(run, programs)


def test_null_switches_a_study_off():
    studies = {"bounds_study": "agarwal2021deep/bounds_vs_exact"}
    for key, figure in (studies | {"training": "liu2023relu/fig3_training_curves"}).items():
        run = run_of({key: None})
        assert len(run.tables) < len(run_of({}).tables)
        assert figure not in figures.drawn(run)
        assert "liu2023relu/fig2_conditioning_vs_depth" in figures.drawn(run)
        with pytest.raises(SystemExit, match=f"{figure} needs {key}"):
            figures.inputs(run, figure)


def test_a_figure_needs_its_own_experiments_alone():
    figure, folder = "liu2023relu/fig3_training_curves", "results/demo/tables"
    tables = product(("training", "learning_rates"), ("fig3", "fig3_code"))
    files = [f"{folder}/{table}/{name}.parquet" for table, name in tables]
    assert figures.inputs(run_of({}), figure) == files
    run = run_of({"training": {"fig3_code": None, "fig3_mine": MINE}})
    curves = [path for path in figures.inputs(run, figure) if "/training/" in path]
    assert curves == [files[0], f"{folder}/training/fig3_mine.parquet"]


@pytest.mark.parametrize("unit", ["critical", "smallest_critical"])
def test_a_job_of_one_seed_knows_of_others_where_the_smallest_critical_rate_counts(unit):
    run = run_with()
    assert mistakes_of(run) == {}
    settings = trainings.settings(run, training_of())
    assert (settings.rate_unit, settings.critical_seeds) == ("critical", ())
    run = run_with(seeds=[1, 32], job_per_seed=True, learning_rates={unit: [1]})
    settings = trainings.settings(run, training_of(per_seed="/seed-32"))
    assert settings.seeds == (32,)
    assert settings.critical_seeds == ((1, 32) if unit == "smallest_critical" else ())


def test_a_job_trains_a_network_or_one_of_its_seeds():
    """Names of files depend on the config alone, and tables of one job have the same."""

    def files(table: str, **changes: Any) -> list[str]:
        start = f"results/demo/{table}/mine/digits/mlp/"
        paths = trainings.training_files(run_with(**changes), table, "mine")
        return [path.removeprefix(start) for path in paths]

    two = ["relu/depth-1.parquet", "relu/depth-2.parquet"]
    assert files("training", depths=[1, 2]) == files("training_kernels", depths=[1, 2]) == two
    assert files("training", depths=[1, 2], epochs=10**5) == two
    assert files("kernels_along_training", depths=[1, 2]) == []
    along = {"kernels_along": {"samples": 16, "points": 3}}
    assert files("kernels_along_training", depths=[1, 2], **along) == two
    seeds = [f"relu/depth-1/seed-{seed}.parquet" for seed in (1, 32)]
    assert files("training", job_per_seed=True, seeds=[1, 32]) == seeds
    assert files("predictions", activations=["tanh", "relu"]) == []
    assert files("predictions", predict=True, depths=[1, 2]) == ["relu.parquet"]
    leaky = run_with(activations=["leaky_relu", "leaky_relu-0.2"])
    compared = trainings.predicted(leaky, training_of(activation="leaky_relu"))
    assert compared == ["results/demo/training/mine/digits/mlp/leaky_relu/depth-1.parquet"]


def test_a_config_has_the_settings_and_defaults_of_trainings_and_words_are_read_back():
    keys = read_yaml(ROOT / "schemas/config.schema.yaml")["$defs"]["experiment"]["properties"]
    defaults = {key: each["default"] for key, each in keys.items() if "default" in each}
    given = {"epochs": 3, "loss": "square"}
    config = defaults | given | {"learning_rates": {"critical": [1e-7]}, "datasets": ["digits"]}
    expected = TrainingSettings(**given, learning_rates=(1e-7,), rate_unit="critical")
    assert TrainingSettings.from_config(config, image=None) == expected
    config |= {"kernels_along": {"samples": 12, "points": 3}, "decay_at": [1, 2], "tf32": True}
    settings = TrainingSettings.from_config(config, image=(4, 3, 2))
    assert (settings.kernels_along, settings.decay_at, settings.tf32) == ((12, 3), (1, 2), True)
    assert TrainingSettings.from_words(to_words(asdict(settings))) == settings
    extra = {each.name for each in fields(TrainingSettings)} - keys.keys()
    assert extra == {"rate_unit", "critical_seeds", "image"}
    required = {each.name for each in fields(TrainingSettings) if each.default is MISSING}
    assert required == {"epochs", "learning_rates"}


def test_what_means_the_same_has_the_same_parameters_and_config():
    def parameters(order: int, rate: float) -> list[Any]:
        trained = MINE | {"seeds": [1, 32][::order], "learning_rates": [0.5, rate][::order]}
        trained |= {"decay_factor": rate, "models": ["fc"], "decay_at": [1, 2][::order]}
        grid = {"depths": [1, 2][::order], "repairs_study": {"depths": [1, 4][::order]}}
        run = run_of({"training": {"mine": trained}, **grid})
        return [
            trainings.settings(run, training_of(model="fc")),
            trainings.settings(run, training_of(model="fc"), kernels_along=None),
            dict(run.config),
        ]

    assert parameters(1, 1) == parameters(-1, 1.0)


def test_a_run_of_another_config_is_known_by_its_record(tmp_path, monkeypatch):
    overlay = {"catalogues": [str(tmp_path / "mine.yaml")], "papers": None}
    (tmp_path / "mine.yaml").write_text((ROOT / "datasets.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    run, file = run_of(overlay), tmp_path / "results/demo/record/config.yaml"
    assert changed_keys(run) == []
    file.parent.mkdir(parents=True)
    program = ["--workflow-digest=0", f"--config-output={file}", "--versions-output=v.json"]
    assert record_run.main(["--config", *record.given_config(run), *program]) == 0
    assert changed_keys(run) == []
    reversed_lists = {"seeds": [111, 32, 1], "depths": [8.0, 4, 2, 1, 0]}
    assert changed_keys(run_of(overlay | reversed_lists)) == []
    changed = run_of(overlay | {"width": 128, "datasets": ["digits"], "data_dir": "elsewhere"})
    assert changed_keys(changed) == ["datasets", "width"]
    assert changed_keys(run_of(overlay | {"width": 128, "run": "other"})) == []


def test_a_bundle_has_the_files_of_a_run_with_an_own_network_though_it_runs_none():
    run = run_of(read_yaml(ROOT / "docs/examples/own_network.yaml"))
    of_bundle = replace(run, models={}, checked=True)
    files = trainings.training_files(run, "training", "mine")
    assert files == trainings.training_files(of_bundle, "training", "mine")
    assert len(files) == 6


COMMITTED = [
    ("along_training", ["config/along_training.yaml"]),
    ("fig3", ["config/fig3.yaml"]),
    ("fig3/published", ["config/paper.yaml", "resources/fig3/published/config.yaml"]),
]


@pytest.mark.parametrize(("folder", "configs"), COMMITTED)
def test_committed_trainings_are_the_files_that_their_run_asks_for(folder, configs):
    overlay: dict[str, Any] = {}
    for config in configs:
        update_config(overlay, read_yaml(ROOT / config))
    run, held = run_of(overlay), ROOT / "resources" / folder
    there = {path.relative_to(held) for path in held.glob("*training*/**/*.parquet")}
    asked = {
        Path(file).relative_to(run.path())
        for table, name in {path.parts[:2] for path in there}
        for file in trainings.training_files(run, table, name)
    }
    assert there == asked


def test_a_training_depends_on_the_samples_of_its_tests():
    folder = "results/demo/datasets/mnist"
    sheets = trainings.datasheets(run_with(datasets=["mnist"]), "mnist")
    assert sheets == [f"{folder}/all.json", f"{folder}/test.json"]


def test_exceptions_hold_for_a_dataset_or_a_model_the_models_first():
    overrides = {"digits": {"epochs": 7, "batch_size": 50}, "mlp": {"batch_size": 60}}
    settings = trainings.settings(run_with(overrides=overrides), training_of())
    assert (settings.epochs, settings.batch_size) == (7, 60)


def test_what_was_asked_for_is_refused_by_name():
    run = run_of({})
    with pytest.raises(SystemExit, match="no dataset 'digit'; did you mean 'digits'"):
        datasets.prepared_from(run, "digit", "all")
    with pytest.raises(SystemExit, match="no figure 'beyond/repair'; did you"):
        figures.inputs(run, "beyond/repair")
    with pytest.raises(SystemExit, match="did you mean 'liu2023relu_fig2'"):
        figures.suggest(run, "liu2023relu_fig22")


def test_what_all_rules_share_imports_few_modules_and_no_torch():
    imports = re.findall("^from ntk_workflow.*", (ROOT / "rules/common.smk").read_text(), re.M)
    count = "sum(name.startswith('ntk_') for name in sys.modules), 'torch' in sys.modules"
    program = "\n".join(["import sys", *imports, f"print({count})"])
    modules, torch = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert int(modules) <= 35
    assert torch == "False"

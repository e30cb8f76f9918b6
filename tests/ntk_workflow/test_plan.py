"""What one asks for is checked and planned, and nothing else stands in the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import record_run
from snakemake.utils import update_config

from ntk_workflow.config import read_yaml
from ntk_workflow.plan.run import options
from tests.plans import ROOT, Wildcards, mistakes_of, plan_of

MINE = {"datasets": ["digits"], "activations": ["relu"], "depths": [1], "epochs": 3}
MINE |= {"learning_rates": "auto"}
NETWORK = {"dataset": "digits", "model": "mlp", "activation": "relu", "depth": "1", "per_seed": ""}
FIG3 = Wildcards(experiment="fig3", **NETWORK)
TRAINED = Wildcards(experiment="mine", **NETWORK)


def test_a_study_with_mistakes_stops_itself_alone():
    plan = plan_of({"kernel_size": 5000, "linearity_study": {"samples": 5000, "expansions": 1}})
    assert set(mistakes_of(plan)) == {"grid", "linearity_study"}
    with pytest.raises(SystemExit, match="a block of 5000 is larger than"):
        plan.row_files("spectra")
    with pytest.raises(SystemExit, match=r"linearity_study\.samples: 5000 is more than"):
        plan.row_files("linearity")
    assert plan.row_files("orthogonality")
    assert plan.training_files("training", "fig3")


BENT = """
from ntk_conditioning.networks.activations import Activation, register
register(Activation(
    "bent_tanh",
    lambda z: z.tanh() + (z - 0.7).clamp(min=0),
    lambda z: 1 - z.tanh() ** 2 + (z > 0.7).to(z),
    kinks=(0.7,),
))
"""


@pytest.mark.usefixtures("activation_registry")
def test_a_curve_with_a_kink_elsewhere_wants_samples_of_one_norm(tmp_path):
    file = tmp_path / "bent_tanh.py"
    file.write_text(BENT)
    overlay = {"activation_files": [str(file)], "activations": ["bent_tanh"]}
    overlay |= {"kernels": ["infinite_ntk"], "overrides": {}, "kernel_size": 20}
    assert mistakes_of(plan_of(overlay | {"datasets": ["digits_sphere"]})) == {}
    told = r"errors of 1\.\d\d% .* where norms differ.*unlike digits$"
    with pytest.raises(SystemExit, match=told):
        plan_of(overlay | {"datasets": ["digits_sphere", "digits"]}).row_files("spectra")


def test_studies_have_sizes_of_their_own():
    plan = plan_of({"samples": 300, "kernel_size": 100, "blocks": 3, "depths": [1]})
    assert mistakes_of(plan) == {}
    study = plan.study("activation_study", "blocks", "kernel_size")
    assert study(Wildcards(dataset="digits_sphere")) == ["--blocks", "1", "--kernel-size", "256"]
    assert plan.grid("kernel_size")(Wildcards(dataset="digits")) == ["--kernel-size", "100"]
    # in another order of keys, a study is the same
    assert options({"b": 1, "a": [2, 3]}) == options({"a": [2, 3], "b": 1})


SWITCHED_OFF = [
    ("activation_study", "activation_study", "beyond/activations"),
    ("bounds_study", "bounds", "agarwal2021deep/bounds_vs_exact"),
    ("linearity_study", "linearity", "beyond/linearity_vs_width"),
    ("training", "training", "liu2023relu/fig3_training_curves"),
]


@pytest.mark.parametrize(("key", "table", "figure"), SWITCHED_OFF)
def test_null_switches_a_study_off(key, table, figure):
    plan = plan_of({key: None})
    assert table in plan_of({}).tables
    assert table not in plan.tables
    assert figure not in plan.drawn_figures
    assert "liu2023relu/fig2_conditioning_vs_depth" in plan.drawn_figures
    with pytest.raises(SystemExit, match=f"{figure} needs {key}"):
        plan.figure_tables(Wildcards(figure=figure))


def test_a_figure_needs_its_own_experiments_alone():
    figure = Wildcards(figure="liu2023relu/fig3_training_curves")
    folder = "results/demo/tables"
    assert plan_of({}).figure_tables(figure) == [
        f"{folder}/{table}/{name}.parquet"
        for table in ("training", "learning_rates")
        for name in ("fig3", "fig3_code")
    ]
    tables = plan_of({"training": {"fig3_code": None, "fig3_mine": MINE}}).figure_tables(figure)
    expected = [f"{folder}/training/{name}.parquet" for name in ("fig3", "fig3_mine")]
    assert [path for path in tables if "/training/" in path] == expected


def test_an_experiment_needs_five_keys():
    plan = plan_of({"training": {"mine": MINE}})
    assert mistakes_of(plan) == {}
    options = plan.network_setting_options(TRAINED)
    assert plan.network_settings(TRAINED).width == 512
    assert {"rate_unit=critical", "critical_seeds=[]"} <= {*options}


@pytest.mark.parametrize("unit", ["critical", "smallest_critical"])
def test_a_job_of_one_seed_knows_of_others_where_the_smallest_critical_rate_counts(unit):
    mine = MINE | {"seeds": [1, 32], "job_per_seed": True, "learning_rates": {unit: [1]}}
    plan = plan_of({"training": {"mine": mine}})
    alone = Wildcards(experiment="mine", **NETWORK | {"per_seed": "/seed-32"})
    settings = plan.network_settings(alone)
    assert settings.seeds == (32,)
    assert settings.critical_seeds == ((1, 32) if unit == "smallest_critical" else ())


def test_a_job_trains_a_network_or_one_of_its_seeds():
    """Names of files depend on the config alone, and tables of one job have the same."""

    def files(table: str, **changes: Any) -> list[str]:
        plan = plan_of({"training": {"mine": MINE | changes}})
        start = f"results/demo/{table}/mine/digits/mlp/"
        return [name.removeprefix(start) for name in plan.training_files(table, "mine")]

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
    leaky = MINE | {"activations": ["leaky_relu", "leaky_relu-0.2"]}
    w = Wildcards(experiment="mine", **NETWORK | {"activation": "leaky_relu"})
    compared = plan_of({"training": {"mine": leaky}}).predicted_trainings(w)
    assert compared == ["results/demo/training/mine/digits/mlp/leaky_relu/depth-1.parquet"]


def test_trainings_that_mean_the_same_have_the_same_parameters():
    def parameters(order: int, rate: float) -> list[list[str]]:
        trained = MINE | {"seeds": [1, 32][::order], "learning_rates": [0.5, rate][::order]}
        trained |= {"decay_factor": rate, "models": ["fc"], "decay_at": [1, 2][::order]}
        plan = plan_of({"training": {"mine": trained}})
        w = Wildcards(experiment="mine", **NETWORK | {"model": "fc"})
        return [plan.network_setting_options(w), plan.prediction_options(w)]

    assert parameters(1, 1) == parameters(-1, 1.0)


def test_what_means_the_same_has_the_same_parameters():
    def parameters(order: int) -> list[list[str]]:
        overlay = {"seeds": [1, 32][::order], "depths": [1, 2][::order]}
        overlay |= {"repairs_study": {"depths": [1, 4][::order]}}
        plan = plan_of(overlay)
        rows = (plan.grid("depths"), plan.grid("seeds"), plan.study("repairs_study"))
        return [each(TRAINED) for each in rows]

    assert parameters(1) == parameters(-1)


def test_a_run_of_another_config_is_known_by_its_record(tmp_path, monkeypatch):
    overlay = {"catalogues": [str(tmp_path / "mine.yaml")], "papers": None}
    (tmp_path / "mine.yaml").write_text((ROOT / "datasets.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    plan, record = plan_of(overlay), tmp_path / "results/demo/record/config.yaml"
    assert plan.changed_keys() == []
    record.parent.mkdir(parents=True)
    program = ["--workflow-digest=0", f"--config-output={record}", "--versions-output=v.json"]
    assert record_run.main(["--config", *plan.given_config(None), *program]) == 0
    assert plan.changed_keys() == []
    reversed_lists = {"seeds": [111, 32, 1], "depths": [8.0, 4, 2, 1, 0]}
    assert plan_of(overlay | reversed_lists).changed_keys() == []
    changed = plan_of(overlay | {"width": 128, "datasets": ["digits"], "data_dir": "elsewhere"})
    assert changed.changed_keys() == ["datasets", "width"]
    assert plan_of(overlay | {"width": 128, "run": "other"}).changed_keys() == []


def test_a_bundle_has_the_files_of_a_run_with_an_own_network_though_it_runs_none():
    plan = plan_of(read_yaml(ROOT / "docs/examples/own_network.yaml"))
    of_bundle = replace(plan, models={})
    files = plan.training_files("training", "mine")
    assert files == of_bundle.training_files("training", "mine")
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
    plan, held = plan_of(overlay), ROOT / "resources" / folder
    there = {path.relative_to(held) for path in held.glob("*training*/**/*.parquet")}
    names = {path.parts[1] for path in there}
    asked = {
        Path(file).relative_to(plan.path())
        for table in {path.parts[0] for path in there}
        for name in names
        for file in plan.training_files(table, name)
    }
    assert there == asked


def test_a_training_depends_on_the_file_of_its_activation_and_on_all_of_its_samples(tmp_path):
    plan = plan_of({"training": {"mine": MINE | {"datasets": ["mnist"]}}})
    w = Wildcards(experiment="mine", **NETWORK | {"dataset": "mnist", "activation": "bent_tanh"})
    file, codes = tmp_path / "bent_tanh.py", set()
    for text in (BENT, BENT.replace("0.7", "0.75")):
        file.write_text(text)
        own = {"activation_files": [str(file)]}
        plan = replace(plan, config={**plan.config, **own})
        codes.add(plan.code("scripts/train_network.py")(w))
    assert len(codes) == 2
    samples = ["results/demo/datasets/mnist/all.npz", *plan.test_samples(w)]
    assert len(samples) == 2
    assert plan.training_datasheets(w) == [name.replace(".npz", ".json") for name in samples]


def test_exceptions_hold_for_a_dataset_or_a_model_the_models_first():
    overrides = {"digits": {"epochs": 7, "batch_size": 50}, "mlp": {"batch_size": 60}}
    plan = plan_of({"training": {"fig3": {"overrides": overrides}}})
    settings = plan.training_settings(FIG3)
    assert (settings.epochs, settings.batch_size) == (7, 60)


def test_what_was_asked_for_is_refused_by_name():
    plan = plan_of({})
    with pytest.raises(SystemExit, match="no dataset 'digit'; did you mean 'digits'"):
        plan.prepared_from(Wildcards(dataset="digit", draw="all"))
    with pytest.raises(SystemExit, match="no figure 'beyond/repair'; did you"):
        plan.figure_tables(Wildcards(figure="beyond/repair"))
    with pytest.raises(SystemExit, match="did you mean 'liu2023relu_fig2'"):
        plan.suggestion(Wildcards(target="liu2023relu_fig22"))

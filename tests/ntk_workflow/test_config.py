"""Every mistake in a config is one line with file, key and remedy, and all come at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ntk_workflow.catalogue import load_catalogues
from ntk_workflow.config import Layer, read_yaml, source_of
from ntk_workflow.config import main as check_files
from ntk_workflow.plan import ConfigError
from tests.plans import Wildcards, plan_of

ROOT = Path(__file__).parents[2]
CATALOGUE_SCHEMA = read_yaml(ROOT / "schemas/datasets.schema.yaml")
BASE = read_yaml(ROOT / "config.yaml") | {"catalogues": [str(ROOT / "datasets.yaml")]}
BASE["activation_study"]["datasets"] = ["digits"]


def lines(overlay: dict, *, base: dict = BASE) -> list[str]:
    """Return the lines that an overlay's mistakes give, of all studies."""
    try:
        plan = plan_of(overlay, base=base)
    except ConfigError as error:
        return str(error).splitlines()
    return list(dict.fromkeys(line for lines in plan.mistakes.values() for line in lines))


def test_the_projects_own_configs_have_no_mistakes():
    assert lines({}) == []
    for name in ("ci", "cifar10", "laptop", "paper"):
        assert lines(read_yaml(ROOT / f"config/{name}.yaml")) == []


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ({"depth": [1]}, "mine.yaml: unknown key 'depth'; did you mean 'depths'?"),
        (
            {"orthogonality_study": {"architectures": ["depp"]}},
            "mine.yaml: orthogonality_study.architectures[0]: unknown architecture 'depp'; did you "
            "mean 'deep'?",
        ),
        (
            {"architectures": {"deep": {"hidden": [8, 8]}}},
            "mine.yaml: architectures.deep.hidden: no width of deep is m, the one that varies; put "
            "m in",
        ),
        (
            {"architectures": {"deep": {"hidden": ["n"]}}},
            "mine.yaml: architectures.deep.hidden[0]: 'n' is not a whole number of at least 1 or "
            "'m'",
        ),
        (
            {"linearity_study": {"datasets": ["synthetic"]}},
            "mine.yaml: linearity_study.datasets[0]: synthetic has no labels, and the study needs "
            "two classes; remove it",
        ),
        (
            {"linearity_study": {"samples": 2000, "expansions": 1}},
            "mine.yaml: linearity_study.samples: 2000 is more than the 1797 samples of digits; "
            "take fewer",
        ),
        (
            {"linearity_study": {"expansions": 21}},
            "mine.yaml: linearity_study.expansions: 21 is more than the 20 samples of the study; "
            "take fewer",
        ),
        (
            {"orthogonality_study": {"widths": [64]}},
            "mine.yaml: orthogonality_study.widths: the list has only 1; give at least 2 items",
        ),
        (
            {"training": {"fig3": {"datasets": ["digit"]}}},
            "mine.yaml: training.fig3.datasets[0]: unknown dataset 'digit'; did you mean 'digits'?",
        ),
        (
            {"training": {"fig3": {"datasets": ["synthetic"]}}},
            "mine.yaml: training.fig3.datasets[0]: synthetic has no labels, and training needs "
            "them; remove it",
        ),
        (
            {"training": {"fig3": {"activations": ["rellu"]}}},
            "mine.yaml: training.fig3.activations[0]: unknown activation 'rellu'; did you mean "
            "'relu'?",
        ),
        (
            {"training": {"fig3": {"outputs": "scalar"}}},
            "mine.yaml: training.fig3.outputs: cross_entropy needs an output for each class; give "
            "outputs classes, or loss square",
        ),
        (
            {"training": {"fig3": {"overrides": {"digit": {"epochs": 2}}}}},
            "mine.yaml: training.fig3.overrides.digit: unknown dataset 'digit'; did you mean "
            "'digits'?",
        ),
        (
            {"training": {"fig3": {"overrides": {"digits": {"samples": 5000}}}}},
            "mine.yaml: training.fig3.overrides.digits.samples: 5000 is more than the 1797 samples "
            "of digits; use all",
        ),
        (
            {"training": {"fig3": {"learning_rates": [1, -0.5]}}},
            "mine.yaml: training.fig3.learning_rates[1]: -0.5 is too small; it must be above 0",
        ),
        (
            {"training": {"fig3": {"learning_rates": 0.5}}},
            "mine.yaml: training.fig3.learning_rates: 0.5 is not a list [...] or 'auto' or a "
            "mapping {...}",
        ),
        (
            {"training": {"fig3": {"learning_rates": {"critical": [0]}}}},
            "mine.yaml: training.fig3.learning_rates.critical[0]: 0 is too small; it must be "
            "above 0",
        ),
        (
            {"training": {"fig3": {"epoch": 3}}},
            "mine.yaml: unknown key 'training.fig3.epoch'; did you mean 'epochs'?",
        ),
        (
            {"training": {"fig3": {"momentum": 0.9}}},
            "mine.yaml: training.fig3.momentum: mlp is trained by plain gradient descent; leave it "
            "at 0, or take mlp to an experiment of its own",
        ),
        (
            {"training": {"resnet": {"depths": [8, 12]}}},
            "config.yaml: training.resnet.models[0]: resnet has depths 6 n + 2, such as 8, 14, 20, "
            "32, 110, not 12; correct depths",
        ),
        (
            {"training": {"resnet": {"datasets": ["librispeech_sample"], "test_share": 0.5}}},
            "mine.yaml: training.resnet.datasets[0]: resnets need images, and of "
            "librispeech_sample no image shape is known; give its catalogue entry image: [height, ",
        ),
        (
            {"training": {"deep_fc": {"learning_rates": "auto"}}},
            "config.yaml: training.deep_fc.models[0]: critical learning rates are known of mlp "
            "only; give fc a list of learning_rates, there or in training.deep_fc.overrides.fc",
        ),
        (
            {"training": {"deep_fc": {"test_share": 0}}},
            "config.yaml: training.deep_fc.criterion: patches has no test samples; give a "
            "test_share, or another criterion",
        ),
        (
            {"training": {"deep_fc": {"test_share": 1}}},
            "mine.yaml: training.deep_fc.test_share: 1 is too large; it must be below 1",
        ),
        (
            {"training": {"deep_fc": {"overrides": {"fc": {"samples": 100}}}}},
            "mine.yaml: training.deep_fc.overrides.fc.samples: fc is a model, and its exceptions "
            "are of batch_size, epochs, learning_rates; give samples for a dataset",
        ),
        (
            {"training": {"deep_fc": {"mixed_precision": True, "dtype": "float64"}}},
            "mine.yaml: training.deep_fc.mixed_precision: needs dtype float32, not float64",
        ),
        ({"depths": [1, 1.5]}, "mine.yaml: depths[1]: 1.5 is not a whole number"),
        ({"depths": [1.0]}, "mine.yaml: depths[0]: 1.0 is not a whole number"),
        ({"depths": [True]}, "mine.yaml: depths[0]: True is not a whole number"),
        ({"depths": [-1]}, "mine.yaml: depths[0]: -1 is too small; the least is 0"),
        ({"depths": 3}, "mine.yaml: depths: 3 is not a list [...]"),
        ({"depths": []}, "mine.yaml: depths: the list is empty; give at least 1 item"),
        (
            {"depths": [2, 2]},
            "mine.yaml: depths: 2 stands there more than once; remove the repetition",
        ),
        ({"dtype": "half"}, "mine.yaml: dtype: 'half' is not one of float64, float32"),
        (
            {"kernels": ["ntk"]},
            "mine.yaml: kernels[0]: 'ntk' is not one of "
            "empirical_ntk, empirical_nngp, infinite_ntk, nngp",
        ),
        (
            {"blocks": "some"},
            "mine.yaml: blocks: 'some' is not a whole number of at least 1 or 'all'",
        ),
        (
            {"run": "My Run"},
            "mine.yaml: run: 'My Run' does not fit; it takes Name of the run; its files are under",
        ),
        (
            {"datasets": ["digit"]},
            "mine.yaml: datasets[0]: unknown dataset 'digit'; did you mean 'digits'?",
        ),
        (
            {"activations": ["relu", "rellu"]},
            "mine.yaml: activations[1]: unknown activation 'rellu'; did you mean 'relu'?",
        ),
        (
            {"kernel_size": 1900},
            "mine.yaml: kernel_size: a block of 1900 is larger than digits (1797 samples); "
            "at most 1797",
        ),
        (
            {"overrides": {"digits": {"blocks": 4}}},
            "mine.yaml: overrides.digits.blocks: 4 disjoint blocks of 512 need 2048 samples and "
            "digits has 1797; at most 3",
        ),
        (
            {"samples": 1798},
            "mine.yaml: samples: 1798 is more than the 1797 samples of digits; use all",
        ),
        (
            {"overrides": {"digits": {"balanced": True}}},
            "mine.yaml: overrides.digits.balanced: digits is whole (samples all); "
            "give samples a number to draw",
        ),
        (
            {"samples": 600, "balanced": True, "overrides": {"patches": {"samples": "all"}}},
            "mine.yaml: balanced: patches is whole (samples all); give samples a number to draw",
        ),
        (
            {"datasets": ["MNIST"]},
            "mine.yaml: datasets[0]: 'MNIST' does not fit; did you mean 'mnist'?",
        ),
        ({"balanced": 1}, "mine.yaml: balanced: 1 is not true or false"),
        (
            {"overrides": {"digits": {"frames": 100}}},
            "mine.yaml: overrides.digits.frames: digits is no speech corpus; frames are drawn of",
        ),
        (
            {"speech": {"frames": 400}},
            "config.yaml: kernel_size: a block of 512 is larger than librispeech_sample (400 "
            "samples); at most 400",
        ),
        (
            {"overrides": {"librispeech_sample": {"frames": 90, "kernel_size": 91}}},
            "mine.yaml: overrides.librispeech_sample.kernel_size: a block of 91 is larger than "
            "librispeech_sample (90 samples); at most 90",
        ),
        (
            {"speech": {"dither": 1}},
            "mine.yaml: speech.dither: 1 is not 0, the only value that it can have",
        ),
        (
            {"speech": {"num_bins": 80}},
            "mine.yaml: unknown key 'speech.num_bins'; did you mean 'num_mel_bins'?",
        ),
        ({"speech": {"preemphasis": 2}}, "mine.yaml: speech.preemphasis: 2 is too large; the most"),
        (
            {"overrides": {"digit": {"blocks": 1}}},
            "mine.yaml: overrides.digit: no dataset of this run; did you mean 'digits'?",
        ),
        (
            {"overrides": {"digits": {"width": 1}}},
            "mine.yaml: unknown key 'overrides.digits.width'; "
            "known: balanced, blocks, depths, frames, kernel_size, samples",
        ),
        (
            {"figures": ["liu2023relu/fig2"]},
            "mine.yaml: figures[0]: unknown figure 'liu2023relu/fig2'; "
            "did you mean 'liu2023relu/fig2_conditioning_vs_depth'?",
        ),
        (
            {"activation_constants": ["relu", "norm_relu"]},
            "mine.yaml: activation_constants[1]: unknown activation 'norm_relu'; did you mean "
            "'normrelu'?",
        ),
        (
            {"activation_study": {"activations": ["swish"]}},
            "mine.yaml: activation_study.activations[0]: unknown activation 'swish'; known: ",
        ),
    ],
)
def test_one_mistake_is_one_line(overlay, expected):
    found = lines(overlay)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize("key", ["path", "alignments"])
def test_a_path_that_is_not_there_is_found_before_any_job(tmp_path, key):
    places = {"path": str(tmp_path), "alignments": str(tmp_path), key: "no/such/place"}
    catalogue = tmp_path / "mine.yaml"
    entry = {
        "title": "Mine",
        "reader": "librispeech",
        "path": places["path"],
        "options": {"subset": "dev", "labels": "phone", "alignments": places["alignments"]},
        "scaling": "none",
    }
    catalogue.write_text(json.dumps({"mine": entry}))
    (line,) = lines({"catalogues": [*BASE["catalogues"], str(catalogue)], "datasets": ["mine"]})
    name = {"path": "path", "alignments": "options.alignments"}[key]
    assert line.startswith(f"catalogue: mine.{name}: no/such/place does not exist; give a path")


def test_two_files_of_one_name_are_found():
    """The subsets of the tests have the names of the official files."""
    catalogues = [*BASE["catalogues"], str(ROOT / "tests/data/catalogue.yaml")]
    overlay = {"catalogues": catalogues, "datasets": ["svhn", "svhn_subset", "cifar10"]}
    (line,) = lines(overlay)
    assert line == (
        "catalogue: svhn_subset and svhn need different files of the name svhn/train_32x32.mat; "
        "use them in runs of their own, with different data_dir"
    )
    assert lines(overlay | {"datasets": ["svhn_subset", "cifar10"]}) == []


def test_balanced_draws_are_a_matter_of_each_dataset():
    own = {"digits": {"samples": 600, "balanced": True}}
    assert lines({"overrides": own}) == []
    assert lines({"samples": 600, "overrides": {"digits": {"balanced": True}}}) == []
    whole = {"samples": "all", "balanced": False}
    rest = dict.fromkeys(("synthetic", "patches"), whole)
    assert lines({"samples": 600, "balanced": True, "overrides": rest}) == []


def test_a_figure_without_its_data_is_refused_when_it_is_drawn():
    plan = plan_of({"kernels": ["infinite_ntk"]})
    assert plan.figure_tables(Wildcards(figure="liu2023relu/fig4_g")) == []
    with pytest.raises(ConfigError) as caught:
        plan.figure_tables(Wildcards(figure="liu2023relu/fig2_conditioning_vs_depth"))
    assert str(caught.value) == (
        "mine.yaml: liu2023relu/fig2_conditioning_vs_depth needs empirical_ntk in 'kernels', which "
        "is ['infinite_ntk']; add it there or remove the figure"
    )


def test_all_mistakes_come_at_once():
    assert len(lines({"width": 0, "seeds": ["one"], "colour": "red", "dtype": None})) == 4
    assert len(lines({"datasets": ["mnits"], "activations": ["rellu"]})) == 2


def test_a_list_belongs_to_the_layer_that_sets_it():
    base = Layer("config.yaml", {"depths": [1], "overrides": {"digits": {"blocks": 1}}})
    over = Layer("mine.yaml", {"overrides": {"digits": {"depths": [1]}}})
    assert source_of(["depths", 0], [base, over]) == "config.yaml"
    assert source_of(["overrides", "digits", "depths"], [base, over]) == "mine.yaml"
    assert source_of(["overrides", "digits", "blocks"], [base, over]) == "config.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [1", "mine.yaml: line 2 not valid YAML"), ("\xff", None)],
)
def test_files_that_are_no_yaml_are_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=r"mine\.yaml") as caught:
        read_yaml(path)
    assert len(str(caught.value).splitlines()) == 1
    if message:
        assert message in str(caught.value)


class TestCatalogues:
    def load(self, tmp_path, text: str):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return load_catalogues([str(ROOT / "datasets.yaml"), str(path)], CATALOGUE_SCHEMA)

    def test_a_later_entry_adds_or_replaces(self, tmp_path):
        entry = "{title: T, reader: npz, path: x.npz, scaling: none}"
        entries, problems = self.load(tmp_path, f"mine: {entry}\ndigits: {entry}\n")
        assert problems == []
        assert entries["mine"]["path"] == "x.npz"
        assert entries["digits"]["reader"] == "npz"
        assert "synthetic" in entries

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            ("{title: T, reader: pickle, path: x.pkl, scaling: none}", ["reader", "pickle"]),
            ("{title: T, reader: npz, path: x.npz, scaling: none, colour: red}", ["mine.colour"]),
            ("{title: T, reader: npz, scaling: none}", ["path"]),
        ],
    )
    def test_a_wrong_entry_is_named(self, tmp_path, entry, words):
        _, problems = self.load(tmp_path, f"mine: {entry}\n")
        assert len(problems) >= 1
        assert all("mine.yaml" in line for line in problems)
        assert any(all(word in line for word in words) for line in problems), problems

    def test_a_missing_catalogue_is_named(self):
        assert lines({"catalogues": [str(ROOT / "datasets.yaml"), "absent.yaml"]}) == [
            "absent.yaml: no such file"
        ]


def test_a_plugin_that_fails_is_one_line(tmp_path):
    found = lines({"activation_files": [str(tmp_path / "absent.py")]})
    assert len(found) == 1
    assert found[0].startswith("mine.yaml: activation_files: ")
    assert "absent.py" in found[0]


def test_files_are_checked_before_snakemake_reads_them(tmp_path, capsys):
    for name, text in {"broken": "a: [1", "list": "- 1", "fine": "run: mine"}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert check_files([str(tmp_path / "fine.yaml")]) == 0
    for name in ("broken", "list", "absent"):
        assert check_files([str(tmp_path / f"{name}.yaml")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{name}.yaml: " in line

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ntk_conditioning.data import datasets
from ntk_conditioning.errors import UserError
from ntk_workflow.catalogue import dataset_source, shape_of
from ntk_workflow.config import LOADER, read_yaml, require_config, typed
from ntk_workflow.plan import figures, rows
from ntk_workflow.run import load
from tests.support.runs import BASE, ROOT, mistakes_of, run_of


def lines(overlay: dict) -> list[str]:
    try:
        mistakes = mistakes_of(run_of({"papers": None} | overlay))  # whose claims take a second
    except UserError as error:
        return str(error).splitlines()
    return list(dict.fromkeys(line for lines in mistakes.values() for line in lines))


# An overlay -> how its line begins.
MISTAKES = r"""
depth: [1] -> unknown key 'depth'; did you mean 'depths'?
depths: [1.5] -> depths[0]: 1.5 is not of type 'integer'
depths: 3 -> depths: 3 is not of type 'array'; write [3]
depths: [2, 2] -> depths: [2, 2] has non-unique elements
blocks: some -> blocks: 'some' is not of type 'integer', or 'all' was expected
run: My Run -> run: 'My Run' does not match '^[a-z0-9][a-z0-9_-]*$'; it takes lower-case letters,
dtype: flaot32
  -> dtype: 'flaot32' is not one of ['float64', 'float32']; did you mean 'float32'?
overrides: {digits: {width: 1}}
  -> unknown key 'overrides.digits.width'; known: balanced, blocks, depths, frames, kernel_size,
training: {fig3: {learning_rates: 0.5}}
  -> training.fig3.learning_rates: 0.5 is not of type 'array'; write [0.5], or 'auto' was expected,
datasets: [digit] -> datasets[0]: unknown dataset 'digit'; did you mean 'digits'?
activations: [relu, rellu] -> activations[1]: unknown activation 'rellu'; did you mean 'relu'?
figures: [liu2023relu/fig2] -> figures[0]: unknown figure 'liu2023relu/fig2'; did you mean
{datasets: [digits], kernel_size: 1900}
  -> kernel_size: a block of 1900 is larger than digits (1797 samples); at most 1797
overrides: {digits: {blocks: 8}}
  -> overrides.digits.blocks: 8 disjoint blocks of 256 need 2048 samples and digits has 1797; at
{datasets: [digits], samples: 1798}
  -> samples: 1798 is more than the 1797 samples of digits; take at most 1797
{samples: 600, balanced: true, overrides: {librispeech_sample: {samples: all}}}
  -> balanced: librispeech_sample is whole (samples all); give samples a number to draw
{kernel_size: all, blocks: 2, datasets: [digits]}
  -> blocks: kernel_size all makes one block of digits; set it to 1
overrides: {digit: {blocks: 1}} -> overrides.digit: no dataset of this run; did you mean 'digits'?
architectures: {deep: {hidden: [8, 8]}}
  -> architectures.deep.hidden: no width of deep is m, the one that varies; put m in
linearity_study: {samples: 1798, expansions: 1}
  -> linearity_study.samples: 1798 is more than the 1797 samples of digits; take at most 1797
bounds_study: {datasets: [digits]}
  -> bounds_study.datasets[0]: digits is not on the unit sphere; take one with scaling unit_norm
architectures_study: {datasets: [synthetic]}
  -> architectures_study.datasets[0]: conv needs images, synthetic has none; give its
architectures_study: {overrides: {vit: {widths: [10]}}}
  -> architectures_study.models[10]: vit has 4 heads, which share its width evenly, not 10; correct
training: {resnet: {depths: [8, 1]}}
  -> training.resnet.models[0]: resnet has an even number of layers, not 1; correct the depths
training: {fig3: {outputs: scalar}}
  -> training.fig3.outputs: cross_entropy needs outputs classes; give them, or loss square
training: {fig3: {weight_decay: 0.1}}
  -> training.fig3.weight_decay: mlp has momentum only; leave it at 0.0, or give mlp its own
training: {deep_fc: {models: [fc_batch_norm], predict: true}}
  -> training.deep_fc.predict: fc_batch_norm: with batch normalisation outputs depend on the other
training: {deep_fc: {overrides: {fc: {samples: 100}}}}
  -> training.deep_fc.overrides.fc.samples: samples is a dataset's; those of a model are batch_size,
training: {deep_fc: {mixed_precision: true, dtype: float64}}
  -> training.deep_fc.mixed_precision: needs dtype float32, not float64
training: {deep_fc: {test_share: 0}}
  -> training.deep_fc.criterion: patches has no test samples; give a test_share or another criterion
catalogues: [absent.yaml, datasets.yaml] -> absent.yaml: No such file or directory
activation_files: [absent.py] -> activation_files: absent.py
models: {mine: {file: absent.py}} -> models.mine: absent.py: no such Python file; give the path of
models: {mine: {file: docs/examples/own_network.py, function: bild}}
  -> models.mine: docs/examples/own_network.py: bild() is not there; write def bild(*, depth, width,
models: {conv: {file: docs/examples/own_network.py}}
  -> models.conv: a built-in network or a dataset has this name; choose another
{models: {m: {file: docs/examples/own_network.py}}, training: {deep_fc: {models: [m], width: 6}}}
  -> training.deep_fc.models[0]: m on patches: docs/examples/own_network.py: build() fails
"""
CASES = [case.split(" -> ") for case in MISTAKES.replace("\n  -> ", " -> ").strip().splitlines()]


@pytest.mark.parametrize(("overlay", "expected"), CASES)
def test_one_mistake_is_one_line(overlay, expected):
    (line,) = lines(yaml.safe_load(overlay))
    assert line.startswith(expected)


def test_a_number_needs_no_point_before_its_exponent_and_is_decimal():
    """YAML 1.1 reads 010 as octal, 1:30 as sexagesimal. Of --config, items come as texts."""
    for numbers in (yaml.load("[1e-3, 1E3]", LOADER), typed(["1e-3", "1E3"])):
        run = run_of({"training": {"fig3": {"learning_rates": numbers}}})
        assert run.config["training"]["fig3"]["learning_rates"] == [0.001, 1000]
    for seed in ("010", "1:30"):
        for seeds in (yaml.load(f"[{seed}]", LOADER), typed([seed])):
            assert lines({"seeds": seeds}) == [f"seeds[0]: {seed!r} is not of type 'integer'"]


SWISH = """
from ntk_conditioning.networks.activations import Activation, register
register(Activation("bent", lambda z: z * z.sigmoid(), lambda z: z.sigmoid()))
"""
WRONG = "line 3: bent: derivative(-4.0137) is 0.0177458, but function rises by -0.0522166 there"
ACTIVATIONS = [
    ("import math\nx = undefined", "line 2: NameError: name 'undefined' is not defined"),
    ("def f(:", "line 1: SyntaxError: invalid syntax"),
    ("x = 1", "registers no activation; call register(Activation(...))"),
    (SWISH, WRONG),
]


@pytest.mark.usefixtures("activation_registry")
@pytest.mark.parametrize(("text", "problem"), ACTIVATIONS)
def test_a_mistake_in_an_activation_of_ones_own_is_one_line(tmp_path, text, problem):
    path = tmp_path / "mine.py"
    path.write_text(text)
    given = {"activation_files": [str(path)]}
    assert lines(given) == [f"activation_files: {path}: {problem}"]
    if text == SWISH:  # a job does not check again what was planned
        run = load(BASE | given | {"datasets": ["absent"]}, source=ROOT, checked=True)
        assert rows.rows(run, "spectra")


def own_dataset(folder: Path, **entry: object) -> dict:
    """Write a catalogue with ``mine``, and return an overlay that uses it."""
    file, mine = folder / "mine.yaml", {"mine": {"title": "Mine", "scaling": "none"} | entry}
    file.write_text(json.dumps(mine))
    catalogues = [*BASE["catalogues"], str(file)]
    return {"catalogues": catalogues, "datasets": ["mine"], "kernel_size": 2, "overrides": {}}


@pytest.mark.parametrize("key", ["path", "options.alignments"])
def test_a_path_that_is_not_there_is_found_before_any_job(tmp_path, key):
    places = {"path": str(tmp_path), "options.alignments": str(tmp_path), key: "no/such/place"}
    path, alignments = places.values()
    options = {"subset": "dev", "labels": "phone", "alignments": alignments}
    (line,) = lines(own_dataset(tmp_path, reader="librispeech", path=path, options=options))
    assert line.startswith(f"catalogue: mine.{key}: no/such/place does not exist; give a path")


def test_a_file_of_ones_own_is_read_before_any_job(tmp_path):
    def mine(text: str, labels: str | None = None) -> dict:
        path = tmp_path / f"{len(text)}.csv"
        path.write_text(text)
        return own_dataset(tmp_path, reader="csv", path=str(path), options={"labels": labels})

    (line,) = lines(own_dataset(tmp_path, reader="npz", path=None))
    assert line.endswith("mine.path: None is not of type 'string'")
    (line,) = lines(mine("a,b\n\n1,2\n3,inf\n"))
    assert ".csv: line 4, column 'b' is inf, one of 1 values" in line
    assert lines(mine("a,b\n\n1,2\n3,4\n")) == []
    trained = {"training": {"fig3": {"datasets": ["mine"], "overrides": {}}}}
    (line, *_) = lines(mine("a,b\n\n1,2\n3,4\n") | trained)
    assert "mine has no labels, and training needs them" in line
    (line, *_) = lines(mine("a,b\n1,2\n3,2\n", labels="b") | trained)
    assert "all labels of mine are equal: nothing can be learned" in line


def test_a_figure_without_its_data_is_refused_when_it_is_drawn():
    run = run_of({"kernels": ["infinite_ntk"]})
    assert figures.inputs(run, "liu2023relu/fig4_g") == []
    message = "empirical_ntk in 'kernels', which is ['infinite_ntk']; add it there or remove the"
    with pytest.raises(SystemExit, match=rf"^\S+ needs {re.escape(message)} figure$"):
        figures.inputs(run, "liu2023relu/fig2_conditioning_vs_depth")


FILES = [
    (b"a: [1\n", "line 2 not valid YAML"),
    (b"a: 1\nb: \xff\n", "not UTF-8; is it a text file?"),
    (b"a: 1\nb: 2\na: 3\n", "line 3 not valid YAML: the key 'a' is in line 1 already"),
    (b"a: !!python/object/apply:os.abort []\n", "line 1 not valid YAML: could not determine a"),
    (b"- 1\n", "not a mapping of keys; see config.yaml"),
    (b"__use_yte__: true\n", "__use_yte__: Snakemake would run its Python; remove it"),
    (None, "No such file or directory"),
]


@pytest.mark.parametrize(("content", "message"), FILES)
def test_files_are_checked_before_snakemake_reads_them(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text("base: &base {run: mine}\nrun: mine\nnext: {<<: *base, run: other}\n")
    require_config(path)
    path.write_bytes(content) if content else path.unlink()
    with pytest.raises(UserError, match=rf"^{path}: {re.escape(message)}.*$"):
        require_config(path)


CATALOGUE = read_yaml(ROOT / "datasets.yaml")
SUBSETS = read_yaml(ROOT / "tests/data/catalogue.yaml")
OWN = read_yaml(ROOT / "docs/examples/own_catalogue.yaml")
SCHEMA = read_yaml(ROOT / "schemas/datasets.schema.yaml")


def mistake(catalogue: object) -> str | None:
    error = best_match(Draft202012Validator(SCHEMA).iter_errors(catalogue))
    return None if error is None else f"{error.json_path}: {error.message}"


def test_the_catalogues_fit_the_schema_and_the_subsets_stack_on_the_official_one():
    assert [mistake(catalogue) for catalogue in (CATALOGUE, SUBSETS, OWN)] == [None] * 3
    assert not SUBSETS.keys() & CATALOGUE.keys()
    for name, entry in SUBSETS.items():
        official = CATALOGUE[name.removesuffix("_subset")]
        assert (entry["reader"], entry["scaling"]) == (official["reader"], official["scaling"])
        for part, file in entry.get("files", {}).items():
            assert file["name"] == official["files"][part]["name"]
            assert file["urls"] == []
            assert not set(file["sha256"]) & set(official["files"][part]["sha256"])


def test_downloads_have_an_address_a_size_and_a_citation_and_a_name_stands_for_one_file():
    known = {}
    for name, entry in CATALOGUE.items():
        assert entry.get("citation"), name
        for file in entry.get("files", {}).values():
            assert file["urls"], name
            assert file["bytes"] > 0
            assert all(url.endswith(Path(file["name"]).name) for url in file["urls"])
            assert known.setdefault(file["name"], file) == file  # rules know it by its name


FILE = CATALOGUE["mnist"]["files"]["train_x"]
ONE = {"train_x": FILE}
PHONES = {"subset": "dev-clean", "labels": "phone", "alignments": "folder"}

# The reader of an entry, its keys, and what the schema says.
ENTRIES = [
    ("npz", {"path": "x.npz"}, None),
    ("csv", {"path": "x", "options": {"labels": None}}, None),
    ("svhn", {"path": "x.mat", "sha256": "0" * 64}, None),
    ("librispeech", {"files": ONE, "options": PHONES}, None),
    ("npz", {}, ": 'path' is a required property"),
    ("idxx", {"path": "x"}, ".reader: 'idxx' is not one of"),
    ("npz", {"path": "x", "options": {"lable": "y"}}, ".options: Addit"),
    ("svhn", {"path": "x.mat"}, ": 'sha256' is a required property"),
    ("cifar10", {"path": "x", "options": {"classes": [1, 2]}}, ".options: Addit"),
    ("idx", {"files": ONE | {"test_y": FILE}}, ".files: 'test_x' is a dependency of 'te"),
    ("librispeech", {"path": "x", "options": PHONES | {"frames": 9}}, ".options"),
    ("npz", {"files": {"train_x": FILE | {"name": "../x"}}}, ".files.train_x.name: '../x' does"),
]


@pytest.mark.parametrize(("reader", "entry", "expected"), ENTRIES)
def test_ones_own_entries(reader, entry, expected):
    found = mistake({"mine": {"title": "Mine", "reader": reader, "scaling": "none"} | entry})
    assert found is None if expected is None else found.startswith(f"$.mine{expected}")


def test_sizes_are_known_before_a_job_has_read_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in ("synthetic", "digits", "patches", "wine"):
        entry = (CATALOGUE | OWN)[name]
        assert shape_of(entry, {}) == datasets.read(dataset_source(name, entry)).x.shape
    assert shape_of(CATALOGUE["mnist"], {}) == (60000, 784)
    for frames, n in ((300, 300), ("all", None)):
        speech = {"frames": frames, "stack_left": 5, "stack_right": 6, "num_mel_bins": 64}
        assert shape_of(CATALOGUE["librispeech"], speech) == (n, 768)
    np.savez(tmp_path / "mine.npz", x=np.ones((4, 3, 2)))
    mine = {"reader": "npz", "path": f"{tmp_path}/mine.npz", "scaling": "none"}
    assert shape_of(mine, {}) == (4, 6)
    (tmp_path / "damaged").write_bytes(b"\xff\0,\n")
    for path in ("absent", "damaged"):  # the job that reads it says what is wrong
        for reader in ("npz", "csv", "parquet"):
            entry = {"reader": reader, "path": f"{tmp_path}/{path}", "options": {"labels": "y"}}
            assert shape_of(entry | {"scaling": "none"}, {}) == (None, None)

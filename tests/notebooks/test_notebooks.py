import ast
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from docutils.core import publish_parts
from IPython.display import Image
from matplotlib import pyplot
from matplotlib.mathtext import MathTextParser
from nbclient import NotebookClient
from pypdf import PdfReader
from run_notebook import ThisPython

from ntk_conditioning import tables
from ntk_conditioning.plotting.theme import DOUBLE_COLUMN, PAGE, SINGLE_COLUMN
from ntk_conditioning.tables import TABLES
from ntk_workflow.config import read_yaml
from ntk_workflow.plan import figures
from ntk_workflow.run import STUDY_OF
from ntk_workflow.yaml_files import named_values, to_words
from tests.support.runs import run_of
from tests.workflow.conftest import finished  # noqa: F401  the fixture

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
    text = (FOLDER / f"{figure}.rst").read_text(encoding="utf-8").strip()
    assert "\n\n" not in text, "a caption is one paragraph"
    caption = " ".join(text.split())
    assert re.match(r"\*\*[A-Z][^*]+\.\*\* (\(a\) )?[A-Z]", caption)
    assert 40 < len(caption.split()) < 150
    assert not re.search(r"\{[{%#]", caption), "Snakemake's report takes captions for templates"
    strict = {"halt_level": 2, "math_output": "MathML"}
    assert "<math" in publish_parts(caption, writer="html5", settings_overrides=strict)["body"]
    for formula in re.findall(r":math:`([^`]*)`", caption):
        MathTextParser("path").parse(f"${formula}$")


@every_figure
def test_a_notebook_is_committed_clean_with_the_demos_parameters(figure):
    notebook = json.loads((FOLDER / f"{figure}.ipynb").read_text(encoding="utf-8"))
    nbformat.validate(notebook)
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
    source = "".join(line for cell in cells.values() for line in cell["source"])
    assert 'by="style"' not in source or "looks.dashes(" in source  # else those of rows' order
    defaults: dict[str, Any] = {}
    exec("".join(cells["parameters"]["source"]), {}, defaults)
    words = figures.notebook_parameters(run_of({}), figure)
    words = [re.sub(r'(?<=[="])results/', "../../results/", word) for word in words]  # in Jupyter
    assert defaults == named_values(words, option="--parameters")


@pytest.fixture
def draw(tmp_path, monkeypatch, capsys):
    """Return a function that executes a notebook, with no warning, and returns what it shows."""
    shown: list[Any] = []
    monkeypatch.setattr(sys, "displayhook", shown.append)

    def call(figure: str, parameters: dict[str, Any]) -> list[Any]:
        given = {suffix: str(tmp_path / f"figure.{suffix}") for suffix in ("pdf", "png")}
        names: dict[str, Any] = {}
        with matplotlib.rc_context(), pd.option_context("display.width", 400):
            for cell in nbformat.read(FOLDER / f"{figure}.ipynb", as_version=4).cells:
                if cell.cell_type == "code":
                    statements = ast.Interactive(ast.parse(cell.source).body)
                    exec(compile(statements, cell.id, "single"), names)
                    names |= parameters | given if cell.id == "parameters" else {}
            pyplot.close("all")
        assert capsys.readouterr() == ("", "")
        assert any(isinstance(value, Image) for value in shown)
        assert Path(given["png"]).read_bytes().startswith(b"\x89PNG")
        return shown

    return call


@pytest.mark.slow
@every_figure
def test_a_notebook_draws_its_figure(figure, finished, draw, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(finished.folder)
    words = figures.notebook_parameters(run_of(read_yaml(ROOT / "config/ci.yaml")), figure)
    shown = draw(figure, named_values(words, option="--parameters"))
    assert not re.search(r"Empty DataFrame|Series\(\[\]", "".join(map(repr, shown)))
    (page,) = PdfReader(tmp_path / "figure.pdf").pages
    width, height = (float(points) / 72 for points in page.mediabox[2:])
    assert any(width == pytest.approx(column) for column in (SINGLE_COLUMN, DOUBLE_COLUMN))
    assert height <= PAGE


@pytest.mark.slow
def test_in_jupyter_a_notebook_runs_where_it_lies_with_its_defaults(finished, tmp_path):  # noqa: F811
    figure = "liu2023relu/fig2_conditioning_vs_depth"
    shutil.copytree(finished.folder / "results/ci/tables", tmp_path / "results/demo/tables")
    notebook = nbformat.read(FOLDER / f"{figure}.ipynb", as_version=4)
    where = tmp_path / "notebooks/liu2023relu"
    where.mkdir(parents=True)
    place: Any = {"resources": {"metadata": {"path": str(where)}}, "kernel_name": "python3"}
    NotebookClient(notebook, kernel_manager_class=ThisPython, **place).execute()
    assert (tmp_path / f"results/demo/figures/{figure}.png").exists()


#: Columns of tables with an axis of the run; in the config they are plurals.
AXES = ("dataset", "activation", "architecture", "model", "depth", "width", "seed")
#: Tables of which all kappas are missing in a poor run: kernels of low rank, or not resolved.
WITHOUT_KAPPA = ("activation_study", "architectures", "kernels_along_training")


def first_only(value: Any) -> Any:
    """Return a value of a config with the first of each list."""
    if isinstance(value, dict):
        return {key: first_only(inner) for key, inner in value.items()}
    return value[:1] if isinstance(value, list) else value


def first_of_each_axis(part: pd.DataFrame, chosen: dict[str, Any], kept: str) -> list[int]:
    """Return the rows with one value of each axis, that of the config if it has some."""
    for axis in [axis for axis in AXES if axis in part.columns and axis != kept]:
        known = part[axis].dropna()
        values = [value for value in chosen.get(f"{axis}s") or [] if value in {*known}]
        part = part[part[axis].isna() | (part[axis] == next(iter([*values, *known]), None))]
    return [*part.index]


@pytest.fixture(scope="module")
def poor(finished, tmp_path_factory) -> tuple[Path, dict[str, Any]]:  # noqa: F811
    """Tables and config of a run with one value of each axis, some of them without any kappa."""
    run, folder = finished.folder / "results/ci", tmp_path_factory.mktemp("poor")
    config = yaml.safe_load((run / "record/config.yaml").read_text())
    for key in config:
        if key.removesuffix("s") in AXES or key.endswith("_study"):
            config[key] = first_only(config[key])
    for name in {name for spec in FIGURES.values() for name in spec["tables"]}:
        declared = TABLES["conditioning" if name == "activation_study" else name]
        table = tables.read(run / f"tables/{name}.parquet", declared)
        study = config.get(STUDY_OF.get(name, ""))
        chosen = study if isinstance(study, dict) else config
        frame = table.to_pandas()
        group = [key for key in ("experiment", "statement") if key in frame]
        parts = [part for _, part in frame.groupby(group)] if group else [frame]
        kept = "depth" if name == "phase_laws" else ""  # depths are compared there
        rows = [row for part in parts for row in first_of_each_axis(part, chosen, kept)]
        table = table.take(rows)
        for index, field in enumerate(table.schema):
            if field.nullable and name in WITHOUT_KAPPA and field.name.startswith("kappa"):
                table = table.set_column(index, field, pa.nulls(len(rows), field.type))
        tables.write(folder / f"{name}.parquet", declared, table)
    return folder, config


@pytest.mark.slow
@pytest.mark.parametrize("figure", [name for name, spec in FIGURES.items() if spec["tables"]])
def test_a_notebook_draws_its_figure_of_a_poor_run(figure, poor, draw, monkeypatch):
    monkeypatch.chdir(ROOT)
    (folder, config), spec = poor, FIGURES[figure]
    parameters = {name: config[name] for name in spec.get("parameters", [])}
    parameters |= {f"{name}_table": f"{folder}/{name}.parquet" for name in spec["tables"]}
    draw(figure, named_values(to_words(parameters), option="--parameters"))

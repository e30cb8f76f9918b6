"""Rows become tables, and tables and data pages, captions, advice and the record of a run."""

import getpass
import json
import platform
import re
import socket
from importlib import metadata
from pathlib import Path

import advise_dataset
import aggregate_table
import collect_paper_figures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import record_run
import render_explorer
import render_page
import select_learning_rates
import yaml
from matplotlib.figure import Figure

from ntk_conditioning import plotting, tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.tables import TABLES
from ntk_workflow.yaml_files import to_words
from tests.support.clone import ROOT
from tests.support.rows import plain, write

OUTPUT = Path("output.parquet")


def aggregate(*options: str, rows: list[Path]) -> None:
    assert aggregate_table.main([*options, f"--output={OUTPUT}", "--rows", *map(str, rows)]) == 0


@pytest.mark.parametrize("name", TABLES)
def test_rows_become_the_table_of_that_name(name):
    table = TABLES[name]
    key = table.keys[0]
    values = "bca" if table.schema.field(key).type == pa.string() else (2, 3, 1)
    rows = [write(Path(f"{value}.parquet"), table, {key: value}) for value in values]
    whole = [plain(table, **{key: value}) for value in sorted(values)]
    for given, expected in ((rows, whole), ([], [])):
        aggregate(f"--table={name}", rows=given)
        assert tables.read(OUTPUT, table).to_pylist() == expected


def test_seeds_that_are_missing_come_last_and_pandas_reads_them():
    whole = write(Path("all.parquet"), "datasets", {"seed": None})
    drawn = write(Path("drawn.parquet"), "datasets", {"seed": 32}, {"seed": 1})
    aggregate("--table=datasets", rows=[whole, drawn])
    found = pd.read_parquet(OUTPUT, dtype_backend="numpy_nullable")
    assert found["seed"].tolist() == [1, 32, pd.NA]


def test_condition_numbers_are_summarised_by_curve_point():
    cells = {depth: [{"depth": depth, "seed": seed} for seed in (1, 2)] for depth in (3, 1)}
    rows = [write(Path(f"{depth}.parquet"), "spectra", *each) for depth, each in cells.items()]
    for given, expected in ((rows, [(1, 2), (3, 2)]), ([], [])):
        aggregate("--table=conditioning", "--summarize", rows=given)
        points = tables.read(OUTPUT, "conditioning").to_pylist()
        assert [(point["depth"], point["seeds"]) for point in points] == expected


#: By criterion, the best of two rates at two depths, and whether the grid was too short.
BEST = {"final_loss": [(0.05, "lowest"), (0.2, "highest")]}
BEST["epochs_to_loss"] = [(None, "none"), (None, "none")]


@pytest.mark.parametrize("criterion", BEST)
def test_best_rates_and_edges_of_grids_are_written(criterion):
    point = {"experiment": "fig3", "dataset": "tiny", "model": "mlp", "activation": "relu"}
    curves = [
        point | {"depth": depth, "relative_rate": rate, "epoch": epoch, "train_loss": loss}
        for depth, rate, final in ((0, 0.05, 0.5), (0, 0.2, 0.75), (2, 0.05, 0.5), (2, 0.2, 0.25))
        for epoch, loss in enumerate((1.0, final))
    ]
    kernels = [point | {"depth": depth, "critical_learning_rate": 1.0} for depth in (0, 2)]
    training = write(Path("training.parquet"), "training", *curves)
    words = f"--training={training} --criterion={criterion} --loss-level=0.1 --output={OUTPUT}"
    words += f" --kernels={write(Path('kernels.parquet'), 'training_kernels', *kernels)}"
    assert select_learning_rates.main(words.split()) == 0
    best = tables.read(OUTPUT, "learning_rates").to_pylist()
    assert [(row["relative_rate"], row["edge"]) for row in best] == BEST[criterion]


CONFIG = {"seeds": [1, 32], "run": "tiny", "speech": {"window": "povey", "preemphasis": 0.97}}
CONFIG |= {"samples": "all", "balanced": False, "bounds_study": None}
CONFIG["training"] = {"fig3": {"learning_rates": {"critical": [0.5, 1e-05]}, "batch_size": "all"}}


def test_config_and_versions_are_recorded_and_nobody_is_named(tmp_path):
    given = {"catalogues": [str(tmp_path / "own/catalogue.yaml"), "/home/someone/more.yaml"]}
    outputs = ["--config-output=config.yaml", "--versions-output=versions.json"]
    arguments = ["--config", *to_words(CONFIG | given), "--workflow-digest=0123", *outputs]
    assert record_run.main(arguments) == 0
    text = Path("config.yaml").read_text()
    published = {"catalogues": ["own/catalogue.yaml", "…/more.yaml"]}
    assert yaml.safe_load(text) == CONFIG | published
    assert "\nseeds: [1, 32]\n" in text  # as a person would write it
    recorded = json.loads(versions := Path("versions.json").read_text())
    assert recorded["python"] == platform.python_version()
    assert recorded["libraries"]["torch"] == metadata.version("torch")
    assert recorded["architecture"] == platform.machine()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert recorded["ntk-conditioning"] == {"version": citation["version"], "code": "0123"}
    for content in (text, versions):  # as whole words: "root" may well be a part of one
        assert not {*re.findall(r"[^\s\",]+", content)} & {getpass.getuser(), socket.gethostname()}
        assert str(tmp_path) not in content


CAPTION = r"""
**Angles & more of {}.** The angle :math:`\theta_{{\mathrm{{in}}}}` of 100 % of the *inputs*
(“_” and # are signs); :math:`\kappa^{{-1}}` as well.
"""


def test_figures_are_collected_with_their_captions():
    names = ("one_fig1", "one_fig2")
    for name, width in zip(names, (plotting.SINGLE_COLUMN, plotting.DOUBLE_COLUMN), strict=True):
        Figure(figsize=(width, 2.0)).savefig(f"{name}.pdf")
        Path(f"{name}.rst").write_text(CAPTION.format(name[-1]), encoding="utf-8")
    words = ["--figures", *(f"{name}={name}.pdf" for name in names)]
    words += ["--captions", *(f"{name}={name}.rst" for name in names), "--folder=paper"]
    assert collect_paper_figures.main(words) == 0
    pdfs = [f"{name}.pdf" for name in names]
    there = sorted(path.name for path in Path("paper").iterdir())
    assert there == ["captions.md", "captions.tex", *pdfs]
    assert all(Path("paper", pdf).read_bytes() == Path(pdf).read_bytes() for pdf in pdfs)
    header, first, second = Path("paper/captions.tex").read_text("utf-8").split("\n\n")
    assert header.endswith("for columns of 3.4 and pages of 7 inches.")
    assert first.startswith("\\begin{figure}\n")
    assert second.startswith("\\begin{figure*}\n")  # across both columns
    assert r"\caption{\textbf{Angles \& more of 1.} The angle $\theta_{\mathrm{in}}$" in first
    assert r"\emph{inputs} (“\_” and \# are signs); $\kappa^{-1}$ as well.}" in first
    assert {*Path("paper/captions.md").read_text("utf-8").splitlines()} > {
        "## one_fig1",
        r"**Angles & more of 2.** The angle $\theta_{\mathrm{in}}$ of 100 % of the *inputs* "
        r"(“_” and # are signs); $\kappa^{-1}$ as well.",
    }


def page(*sources: Path) -> str:
    assert render_page.main(["--sources", *map(str, sources), "--output=page.html"]) == 0
    text = Path("page.html").read_text()
    assert not re.search(r"src=|href=|url\(|@import|<script", text)  # it asks nobody
    return text


def test_every_column_and_row_of_a_table_is_on_its_page():
    first = {"kernel": "<0>", "seeds": 0, "kappa_mean": 0.123456}
    text = page(write(Path("conditioning.parquet"), "conditioning", first, {"kernel": "a<1>"}))
    names = re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert names == tables.get("conditioning").schema.names
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    assert len(cells) == 2 * len(names)
    rows = [dict(zip(names, cells[k : k + len(names)], strict=True)) for k in (0, len(names))]
    shown = [(row["kernel"], row["seeds"], row["kappa_mean"]) for row in rows]
    assert shown == [("&lt;0&gt;", "0", "0.1235"), ("a&lt;1&gt;", "1", "–")]
    assert 'title="mean over blocks and seeds, as liu2023relu reports it"' in text


def test_the_record_is_shown_as_it_was_written():
    Path("config.yaml").write_text("depths: [1, 2]\nnote: <b>\n")
    Path("versions.json").write_text('{"torch": "2"}')
    text = page(Path("config.yaml"), Path("versions.json"))
    assert "<pre>depths: [1, 2]\nnote: &lt;b&gt;\n</pre>" in text
    assert "<h2>Versions</h2>" in text


def test_an_explorer_without_tables_has_the_theory_and_the_same_bytes_again():
    for name in ("a.html", "b.html"):
        assert render_explorer.main(["--run=x", f"--output={name}"]) == 0
    text = Path("a.html").read_text(encoding="utf-8")
    assert text == Path("b.html").read_text(encoding="utf-8")
    assert 'data-view="depth"' not in text
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.S)
    held = json.loads(found[1])
    assert list(held["specs"]) == ["pair"]
    # two samples have the kernel of equation 11
    pairs = pd.DataFrame(held["data"]["pairs"])
    linear = pairs[(pairs.depth == 0)]
    assert (abs(linear["gradient"] - linear["angle"]) < 1e-4).all()
    wide = pairs[(pairs.activation == "relu") & (pairs.angle == 20)].set_index("depth")
    assert wide["gradient"].is_monotonic_increasing
    assert wide["embedding"].is_monotonic_decreasing


def test_a_table_of_ones_own_gets_advice_on_a_page_and_as_a_table(monkeypatch):
    monkeypatch.setattr(advise_dataset, "ACTIVATIONS", ("relu", "erf"))
    monkeypatch.setattr(advise_dataset, "DEPTHS", (1, 4))
    x = np.random.default_rng(0).standard_normal((16, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(kind=["x", "y"] * 8)
    frame.to_csv("mine.csv", index=False)
    frame.to_parquet("mine.parquet", index=False)
    save_prepared(Path("mine.npz"), PreparedSamples("m", x, np.tile([0, 1], 8)))
    pages = set()
    for data in ("mine.csv --labels=kind", "mine.parquet --labels=kind", "mine.npz"):
        words = f"--data={data} --dataset=<mine> --threads=1 --output={OUTPUT} --page=page.html"
        assert advise_dataset.main(words.split()) == 0
        pages.add(Path("page.html").read_text(encoding="utf-8"))
        rows = tables.read(OUTPUT, "advice").to_pylist()
        assert {row["activation"] for row in rows} == {"relu", "erf"}
        assert any(row["excess"] is not None for row in rows)
    (text,) = pages
    assert "Advice on &lt;mine&gt;" in text
    assert "of 2 classes" in text
    assert "http" not in text  # nothing is loaded

"""The workflow away from its checkout, or in one that is read-only or has a strange name."""

import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import verify_bundle
import yaml

from tests.support.clone import ROOT, Clone
from tests.workflow.conftest import CI, SMALL

pytestmark = pytest.mark.slow

FIGURE = "results/ci/figures/liu2023relu/fig4_g.png"  # a notebook without tables
TABLE = "results/ci/tables/activations.parquet"  # one job
SPEECH = "results/ci/features/librispeech_sample.npz"  # from recordings in the checkout

IMPORTING = """
configfile: "config.yaml"

module ntk:
    snakefile: {snakefile!r}
    config: config["ntk"]
    prefix: "ntk/"

use rule * from ntk as ntk_*

rule report_kappa:
    default_target: True
    input: "ntk/{table}", "ntk/{figure}", "ntk/{bundle}"
    output: "kappa.txt"
    shell: "echo {{input}} > {{output}}"
"""
BUNDLE = "results/ci/bundle/ci.zip"


def test_another_workflow_uses_this_one_as_a_module_with_a_prefix(finished, tmp_path):
    """Its rules have other names there, and its files another beginning."""
    names = {"table": TABLE, "figure": FIGURE, "bundle": BUNDLE}
    text = IMPORTING.format(snakefile=str(finished.folder / "Snakefile"), **names)
    (tmp_path / "Snakefile").write_text(text)
    ntk = SMALL | {"run": "ci", "datasets": ["digits"], "figures": ["liu2023relu/fig4_g"]}
    config = {"ntk": ntk | {"activation_constants": ["relu", "linear"]}, "samples": "its own"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    other = Clone(tmp_path)
    other.run("--cores", "2")
    assert (tmp_path / "ntk" / FIGURE).read_bytes() == (finished.folder / FIGURE).read_bytes()
    assert verify_bundle.main([str(tmp_path / "ntk" / BUNDLE)]) == 0
    top = {path.name for path in tmp_path.iterdir()} - {".snakemake"}
    assert top == {"Snakefile", "config.yaml", "kappa.txt", "ntk"}
    assert other.plan() == Counter()

    config["ntk"] |= {"widht": 3}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    advice = "The configuration has mistakes:\nunknown key 'widht'; did you mean 'width'?"
    assert advice in other.run("-n", fails=True)


def test_snakefile_and_working_folder_may_be_apart(finished, tmp_path):
    """With -s, and with --directory; the user's files are beside the results."""
    (tmp_path / "mine.csv").write_text("a,b,y\n1,2,0\n3,5,1\n4,4,0\n")
    entry = {"title": "Mine", "reader": "csv", "path": "mine.csv", "scaling": "none"}
    entry |= {"options": {"labels": "y"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"mine": entry}))
    options = ("-s", f"{finished.folder}/Snakefile", "--cores", "2")
    options += ("--configfile", f"{finished.folder}/config/ci.yaml")
    options += ("--config", "catalogues=[datasets.yaml,mine.yaml]")
    here, own = Clone(tmp_path), "results/ci/datasets/mine/all.npz"
    here.run(SPEECH, own, *options)
    assert (tmp_path / SPEECH).read_bytes() == (finished.folder / SPEECH).read_bytes()
    assert (tmp_path / own).exists()

    there = ("--directory", str(tmp_path), *CI)
    finished.run(TABLE, *there, "--cores", "2")
    assert (tmp_path / TABLE).read_bytes() == (finished.folder / TABLE).read_bytes()


#: So that a read-only folder is read-only for root, too.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


def test_a_read_only_checkout_with_a_strange_name_and_another_python_first_in_path(
    finished, tmp_path
):
    """Caches have a place of their own (docs/elsewhere.md); jobs have the Python of Snakemake."""
    checkout, there = Clone(tmp_path / "Prüf stand's ñ").folder, tmp_path / "κ {of} it's"
    python = tmp_path / "bin/python"
    for folder in (there, python.parent):
        folder.mkdir()
    python.write_text("#!/bin/sh\nexit 9\n")
    python.chmod(0o755)
    environment = dict.fromkeys(("XDG_CACHE_HOME", "MPLCONFIGDIR"), str(tmp_path / "cache"))
    environment |= {"HOME": "/dev/null", "PATH": f"{python.parent}:/usr/bin:/bin"}
    # the kernels that these choose decide last digits
    environment |= {key: os.environ[key] for key in os.environ if key.startswith("OPENBLAS_")}
    subprocess.run(["chmod", "-R", "a-w", str(checkout)], check=True)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*UNPRIVILEGED, sys.executable, "-m", "snakemake", TABLE, FIGURE, "--cores", "2"]
        settings = {"cwd": checkout, "env": environment, "encoding": "utf-8"}
        return subprocess.run([*command, *options, *CI], capture_output=True, **settings)

    done, in_place = run("--directory", str(there)), run().stderr
    subprocess.run(["chmod", "-R", "u+w", str(checkout)], check=True)  # pytest removes it
    assert done.returncode == 0, done.stderr
    for name in (TABLE, FIGURE):
        assert (there / name).read_bytes() == (finished.folder / name).read_bytes(), name
    assert [path.name for path in there.iterdir() if path.name[0] != "."] == ["logs", "results"]
    assert f"{checkout} cannot be written, and results, logs and notes go" in in_place
    assert "Traceback" not in in_place


def test_make_takes_files_with_strange_names(clone):
    (clone.folder / "it's.yaml").write_text("run: odd\n")
    for words, expected in (
        (["demo", "CONFIG=it's.yaml"], {"--configfile", "it's.yaml", "results/odd/figures"}),
        (["advice", "DATA=dä ta/it's ñ.csv"], {"dä ta/it's ñ.csv", "it's ñ"}),
    ):
        command = ["make", "--dry-run", "--assume-old=.venv/.installed", *words]
        text = subprocess.check_output(command, encoding="utf-8", **clone.where())
        assert expected <= {*shlex.split(text)}


DEPLOYED = """
configfile: "config/config.yaml"
module ntk_conditioning:
    snakefile: github("someone/ntk-conditioning", path="Snakefile", tag="v1")
    config: config
use rule * from ntk_conditioning
"""


def test_a_workflow_as_snakedeploy_writes_it_runs(finished, tmp_path: Path, monkeypatch):
    """It has no prefix; the hosting site is a local repository here."""
    (tmp_path / "someone").mkdir()
    hosted = Clone(tmp_path / "someone/ntk-conditioning").folder
    git = ("git", "-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "All"], ["tag", "v1"]):
        subprocess.run([*git, *words], cwd=hosted, check=True)
    settings = {"KEY_0": f"url.file://{tmp_path}/.insteadOf", "VALUE_0": "https://github.com/"}
    for name, value in {"COUNT": "1", **settings}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder in ("workflow", "config"):
        (tmp_path / "here" / folder).mkdir(parents=True)
    (tmp_path / "here/workflow/Snakefile").write_text(DEPLOYED)
    shutil.copyfile(ROOT / "config/ci.yaml", tmp_path / "here/config/config.yaml")
    here = Clone(tmp_path / "here")
    here.run(TABLE, "--cores", "2")
    assert (here.folder / TABLE).read_bytes() == (finished.folder / TABLE).read_bytes()

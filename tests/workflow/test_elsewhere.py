"""The workflow away from its checkout: a module of another workflow, -s, --directory, deployed.

And in places where it is read-only, strangely named, or without a home.
"""

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
from tests.workflow.conftest import CI

STUDY = "results/ci/tables/activation_study.parquet"  # three jobs, one of which has checkpoints
FIGURE = "results/ci/figures/liu2023relu/fig4_g.png"  # a notebook without tables
TABLE = "results/ci/tables/activations.parquet"  # one job
SPEECH = "results/ci/features/librispeech_sample.npz"  # from recordings in the checkout
OVERLAY = yaml.safe_load((ROOT / "config/ci.yaml").read_text())

IMPORTING = """
configfile: "config.yaml"

module ntk:
    snakefile: {snakefile!r}
    config: config["ntk"]
    prefix: {prefix!r}

use rule * from ntk as ntk_*

rule report_kappa:
    default_target: True
    input: "{prefix}{study}", "{prefix}{figure}"
    output: "kappa.txt"
    shell: "echo ${{{{NTK_JOB-none}}}} {{input}} > {{output}}"
"""


def workflow_in(folder: Path, **files: str) -> Clone:
    """Return a folder in which another workflow lies."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", "/")).parent.mkdir(exist_ok=True)
        (folder / name.replace("__", "/")).write_text(text)
    return Clone.at(folder)


def test_another_workflow_uses_this_one_as_a_module(finished, tmp_path):
    prefix = "ntk/"
    names = {"snakefile": str(finished.folder / "Snakefile"), "prefix": prefix}
    text = IMPORTING.format(**names, study=STUDY, figure=FIGURE)
    config = yaml.safe_dump({"ntk": OVERLAY, "samples": "its own"})
    other = workflow_in(tmp_path / "other", Snakefile=text, **{"config.yaml": config})
    other.run("--cores", "2")
    for name in (STUDY, FIGURE):
        ours, theirs = finished.folder / name, other.folder / f"{prefix}{name}"
        assert theirs.read_bytes() == ours.read_bytes(), name
    # the environment of our jobs is not that of theirs, and no file is outside the prefix
    assert (other.folder / "kappa.txt").read_text().startswith("none ")
    top = {path.name for path in other.folder.iterdir()} - {".snakemake"}
    assert top == {"Snakefile", "config.yaml", "kappa.txt", "ntk"}
    assert other.plan() == Counter()
    planned = other.plan("ntk_all", f"{prefix}results/ci/bundle/ci.zip")
    assert planned["ntk_bundle_run"] == planned["ntk_render_explorer"] == 1
    assert planned["ntk_render_figure"] == len(finished.files("results/ci/figures/*/*.png")) - 1


@pytest.mark.slow
def test_the_bundle_of_a_module_is_verified(tmp_path):
    """Its rules have other names there, and its files another beginning."""
    names = {"snakefile": str(ROOT / "Snakefile"), "prefix": "ntk/"}
    text = IMPORTING.format(**names, study=STUDY, figure=FIGURE)
    absent = ("activation_study", "bounds_study", "phase_study", "finite_width_study")
    absent += ("repairs_study", "architectures_study", "orthogonality_study", "linearity_study")
    small = {"datasets": ["digits"], "kernels": ["infinite_ntk"], "depths": [1], "seeds": [1]}
    small |= {"kernel_size": 48, "blocks": 1, "samples": 100, "run": "small"}
    small |= {"figures": ["liu2023relu/fig4_g"]}
    small |= dict.fromkeys((*absent, "precision_study", "training", "papers", "claim_experiments"))
    config = {"config.yaml": yaml.safe_dump({"ntk": small})}
    other = workflow_in(tmp_path / "other", Snakefile=text, **config)
    bundle = "ntk/results/small/bundle/small.zip"
    other.run(bundle, "--cores", "2")
    assert verify_bundle.main([str(other.folder / bundle)]) == 0


def test_a_module_says_which_key_is_wrong(tmp_path):
    names = {"snakefile": str(ROOT / "Snakefile"), "prefix": "", "study": STUDY, "figure": FIGURE}
    config = "ntk: {run: ci, widht: 3}\n"
    text = IMPORTING.format(**names)
    other = workflow_in(tmp_path / "other", Snakefile=text, **{"config.yaml": config})
    done = other.run("-n", check=False)
    advice = "The configuration has mistakes:\nunknown key 'widht'; did you mean 'width'?"
    assert advice in done.stdout + done.stderr


def test_snakefile_and_working_folder_may_be_apart(finished, tmp_path):
    """With -s, and with --directory; files of the user's own are beside the results."""
    here = workflow_in(tmp_path / "here", **{"mine.csv": "a,b,y\n1,2,0\n3,5,1\n4,4,0\n"})
    entry = {"title": "Mine", "reader": "csv", "path": "mine.csv", "scaling": "none"}
    entry |= {"options": {"labels": "y"}}
    (here.folder / "mine.yaml").write_text(yaml.safe_dump({"mine": entry}))
    snakefile = ("-s", str(finished.folder / "Snakefile"))
    overlay = ("--configfile", str(finished.folder / "config/ci.yaml"))
    own = "results/ci/datasets/mine/all.npz"
    with_own = ("--config", "catalogues=[datasets.yaml,mine.yaml]")
    here.run(SPEECH, own, *snakefile, *overlay, *with_own, "--cores", "2")
    assert (here.folder / SPEECH).read_bytes() == (finished.folder / SPEECH).read_bytes()
    assert (here.folder / own).exists()

    there = workflow_in(tmp_path / "there")
    options = ("--directory", str(there.folder), *CI)
    finished.run(TABLE, *options, "--cores", "2")
    assert (there.folder / TABLE).read_bytes() == (finished.folder / TABLE).read_bytes()
    assert finished.plan(TABLE, *options) == Counter()


#: So that a read-only folder is read-only for root, too.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


@pytest.mark.skipif(bool(UNPRIVILEGED) and not shutil.which("setpriv"), reason="needs setpriv")
def test_a_read_only_checkout_with_a_strange_name_and_a_read_only_home(finished, tmp_path):
    """Caches of Snakemake and matplotlib have a place of their own, as docs/clusters.md says."""
    checkout = Clone(tmp_path / "Prüf stand's ñ").folder
    there = workflow_in(tmp_path / "κ {of} it's").folder
    folders = [checkout, *(path for path in checkout.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    caches = dict.fromkeys(("XDG_CACHE_HOME", "MPLCONFIGDIR"), str(tmp_path / "cache"))
    environment = os.environ | {"HOME": "/dev/null", "OMP_NUM_THREADS": "1", **caches}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*UNPRIVILEGED, sys.executable, "-m", "snakemake", TABLE, FIGURE, "--cores", "2"]
        settings = {"cwd": checkout, "env": environment, "encoding": "utf-8"}
        return subprocess.run([*command, *options, *CI], capture_output=True, **settings)

    try:
        done = run("--directory", str(there))
        assert done.returncode == 0, done.stderr
        for name in (TABLE, FIGURE):
            assert (there / name).read_bytes() == (finished.folder / name).read_bytes(), name
        assert [path.name for path in there.iterdir() if path.name[0] != "."] == ["logs", "results"]
        in_place = run().stderr
    finally:
        for path in folders:
            path.chmod(0o755)
    assert f"{checkout} cannot be written, and results, logs and notes go into" in in_place
    assert "Traceback" not in in_place


def test_make_takes_files_with_strange_names(tmp_path):
    config = tmp_path / "it's.yaml"
    config.write_text("run: odd\n")

    def planned(*words: str) -> list[str]:
        command = ["make", "--dry-run", "--assume-old=.venv/.installed", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
        return shlex.split(done.stdout) if done.returncode == 0 else [done.stderr]

    words = planned("demo", f"CONFIG={config}")
    assert {"--configfile", str(config), "results/odd/figures"} < {*words}
    words = planned("advice", "DATA=dä ta/it's ñ.csv")
    assert words[words.index("--data") + 1] == "dä ta/it's ñ.csv"
    assert words[words.index("--dataset") + 1] == "it's ñ"
    (refusal,) = planned("demo", "CONFIG=a b.yaml")
    assert "no config file a; a name with spaces: snakemake --configfile" in refusal


def test_jobs_are_run_by_the_python_that_runs_snakemake(clone, tmp_path):
    """Though its environment is not activated and another Python comes first in PATH."""
    other = tmp_path / "bin/python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 9\n")
    other.chmod(0o755)
    command = [sys.executable, "-m", "snakemake", TABLE, "--cores", "1", *CI]
    environment = clone.environment() | {"PATH": f"{other.parent}:/usr/bin:/bin"}
    subprocess.run(command, cwd=clone.folder, env=environment, check=True, capture_output=True)
    assert (clone.folder / TABLE).exists()


DEPLOYED = """
from snakemake.utils import min_version


min_version("6.10.0")


configfile: "config/config.yaml"


# declare https://github.com/someone/ntk-conditioning as a module
module ntk_conditioning:
    snakefile:
        github("someone/ntk-conditioning", path="Snakefile", tag="v1")
    config:
        config


# use all rules from https://github.com/someone/ntk-conditioning
use rule * from ntk_conditioning
"""


def test_a_workflow_as_snakedeploy_writes_it_runs(finished, tmp_path, monkeypatch):
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
    here = workflow_in(tmp_path / "here", workflow__Snakefile=DEPLOYED)
    (here.folder / "config").mkdir()
    (here.folder / "config/config.yaml").write_text((ROOT / "config/ci.yaml").read_text())
    here.run(TABLE, "--cores", "2")
    assert (here.folder / TABLE).read_bytes() == (finished.folder / TABLE).read_bytes()
    planned = here.plan("--config", "figures=[liu2023relu/fig4_g]")  # of its default target
    assert planned["render_figure"] == 1

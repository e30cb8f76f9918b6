"""Every undocumented attribute of Snakemake that the workflow touches, with the real Snakemake."""

import json
import os
from pathlib import Path

from tests.support import snakemake_forks

SRC = Path(__file__).parents[2] / "src"
SNAKEFILE = f"""
import json, sys
sys.path.insert(0, {str(SRC)!r})
from ntk_workflow import snakemake_internals

configfile: "config.yaml"

seen = [
    snakemake_internals.read_config(workflow, config),
    [snakemake_internals.gives_gpu(workflow, name) for name in ("one", "two", "three")],
    snakemake_internals.runs_one_job(workflow),
    snakemake_internals.is_module(workflow),
    snakemake_internals.placed(workflow)("results/a"),
]

rule all:
    params: seen=json.dumps(seen)
    shell: "echo {{params.seen:q}}"
"""


def seen(folder: Path, *arguments: str) -> list:
    done = snakemake_forks.run(["--cores", "1", *arguments], folder, {**os.environ})
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[{")))


def test_the_config_with_its_overlays_and_gpus_of_the_profile(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "config.yaml").write_text("depths: [0]\nrun: demo\n")
    (tmp_path / "mine.yaml").write_text("depths: [1]\n")
    overlays = ("--configfile", "mine.yaml", "--config", "seeds=[1,32]")
    config = {"depths": [1], "run": "demo", "seeds": [1, 32]}
    expected = [config, [True, False, False], False, False, "results/a"]
    assert seen(tmp_path, *overlays, "--set-resources", "one:gpu=1", "two:gpu=0") == expected


def test_a_module_has_a_prefix_a_config_and_names_of_its_own(tmp_path):
    inner = SNAKEFILE.replace('configfile: "config.yaml"', "")
    (tmp_path / "inner.smk").write_text(inner)
    (tmp_path / "config.yaml").write_text("run: demo\n")
    module = 'module ntk:\n    snakefile: "inner.smk"\n    prefix: "some"\n'
    module += '    config: {"seeds": ["1"]}\nuse rule * from ntk as ntk_*\n'
    (tmp_path / "Snakefile").write_text(module)
    config = {"run": "demo", "seeds": [1]}
    expected = [config, [True, False, False], False, True, "some/results/a"]
    assert seen(tmp_path, "--set-resources", "ntk_one:gpu=1") == expected

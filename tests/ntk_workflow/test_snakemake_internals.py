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

seen = {{"config": snakemake_internals.read_config(workflow, config)}}
seen["gpu"] = [snakemake_internals.gives_gpu(workflow, name) for name in ("one", "two", "three")]
seen["job"] = snakemake_internals.runs_one_job(workflow)

seen["module"] = snakemake_internals.is_module(workflow)
seen["placed"] = snakemake_internals.placed(workflow)("results/a")

rule all:
    params: seen=json.dumps(seen)
    shell: "echo {{params.seen:q}}"
"""


def test_the_config_with_its_overlays_and_gpus_of_the_profile(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "config.yaml").write_text("depths: [0]\nrun: demo\n")
    (tmp_path / "mine.yaml").write_text("depths: [1]\n")
    arguments = ["--cores", "1", "--configfile", "mine.yaml", "--config", "seeds=[1,32]"]
    arguments += ["--set-resources", "one:gpu=1", "two:gpu=0"]
    done = snakemake_forks.run(arguments, tmp_path, {**os.environ})
    seen = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert seen["config"] == {"depths": [1], "run": "demo", "seeds": [1, 32]}
    assert seen["gpu"] == [True, False, False]
    assert seen["job"] is False
    assert (seen["module"], seen["placed"]) == (False, "results/a")


def test_a_module_has_a_prefix_a_config_and_names_of_its_own(tmp_path):
    (tmp_path / "inner").mkdir()
    inner = SNAKEFILE.replace('configfile: "config.yaml"', "")
    (tmp_path / "inner/Snakefile").write_text(inner)
    (tmp_path / "config.yaml").write_text("run: demo\n")
    module = 'module ntk:\n    snakefile: "inner/Snakefile"\n    prefix: "some"\n'
    module += '    config: {"seeds": ["1"]}\nuse rule * from ntk as ntk_*\n'
    (tmp_path / "Snakefile").write_text(module)
    arguments = ["--cores", "1", "--set-resources", "ntk_one:gpu=1"]
    done = snakemake_forks.run(arguments, tmp_path, {**os.environ})
    seen = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert seen["config"] == {"run": "demo", "seeds": [1]}
    assert seen["gpu"] == [True, False, False]
    assert (seen["module"], seen["placed"]) == (True, "some/results/a")

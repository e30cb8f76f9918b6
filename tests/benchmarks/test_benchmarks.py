"""The benchmarks at tiny sizes: what they write, and what they refuse to compare."""

import importlib
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import (
    block,
    conditioning,
    gpu,
    gpu_training,
    loops,
    report,
    training,
    workers,
)
from benchmarks.problem import DifferentResultError, Problem
from benchmarks.settings import Settings
from ntk_conditioning.kernels.empirical import ntk

QUICK = Settings(threads=1, rounds=1, quick=True)
QUICKLY = ["block", "scaling", "conditioning", "angle", "orthogonality", "cell", "speech"]
QUICKLY += ["training", "aggregation", "modules"]
SAYS = {"block": "neural-tangents, structured derivatives was not measured"}
NETWORKS = loops.Networks(2, **training.TINY)
#: A peer that has our kernel, but for a factor of its first entry.
WORKER = f"""
import sys
sys.path.insert(0, {str(workers.PROGRAMS)!r})
import numpy as np
from worker import serve
k = np.load("KERNEL")
k[0, 0] *= float(sys.argv[2])
print("not an answer")
serve(lambda: k, ["numpy"])
"""


def written(folder: Path, name: str) -> tuple[dict[str, Any], str]:
    """Return what a benchmark has written: its numbers and its section."""
    assert (folder / "results" / f"{name}.png").stat().st_size < 100_000
    text = (folder / "README.md").read_text(encoding="utf-8")
    section = text.split(f"<!-- {name}: written by python -m benchmarks {name} -->\n")[1]
    result = json.loads((folder / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return result, section.split(f"<!-- end of {name} -->")[0]


def test_a_peer_is_timed_if_its_kernel_is_the_same(tmp_path, monkeypatch):
    problem = Problem(20, 2, "float64", d=30, width=16)
    case = block.Case(problem, ("torch_func",), {"torch_func": 1e-9})
    np.save(tmp_path / "kernel.npy", ntk(problem.network(), problem.data()).numpy())
    monkeypatch.setattr(workers, "PROGRAMS", tmp_path)

    def measured(program: str, factor: str) -> tuple[dict[str, Any], list[bool | None]]:
        """Measure with a program as the only peer; also return whether targets are met."""
        (tmp_path / "peer.py").write_text(program)
        monkeypatch.setitem(block.PEERS, "torch_func", workers.Peer("a peer", "peer.py", factor))
        result = block.measure_case(case, QUICK, gemm_size=32)
        return result, [target.met for target in block.judge(case, result)]

    program = WORKER.replace("KERNEL", str(tmp_path / "kernel.npy"))
    result, met = measured(program, "1")
    assert (result["missing"], met) == ({}, [True])
    assert len(result["seconds"]["torch_func"]) == QUICK.rounds
    assert result["ratios"]["torch_func"]["median"] > 0
    for factor in ("1.00000000001", "nan"):
        with pytest.raises(DifferentResultError, match=r"a peer: .* not compared"):
            measured(program, factor)
    result, met = measured("import sys; sys.exit('no such library')", "1")
    assert result["missing"] == {"torch_func": "it ended with code 1: no such library"}
    assert met == [None]


def test_all_ways_end_with_the_same_weights_and_other_eigenvalues_are_refused():
    differences = training.compare(NETWORKS, threads=1)
    assert set(differences) == {"together", "torch", "loader"}
    assert max(differences.values()) < loops.SAME
    assert conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-9)) == pytest.approx(1e-9)
    with pytest.raises(DifferentResultError, match="not compared"):
        conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-7))


def called(command: list[str], **_: Any) -> SimpleNamespace:
    """Run a module of the command line in this process."""
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(io.StringIO()) as text:
        patched.setattr(sys, "argv", command[2:])
        patched.setattr(sys, "path", [*sys.path])
        assert importlib.import_module(command[2]).main() == 0
    return SimpleNamespace(stdout=text.getvalue())


@pytest.mark.parametrize("name", QUICKLY)
def test_a_quick_run_writes_numbers_figure_and_section(name: str, tmp_path, monkeypatch):
    # each point would start a process
    for module in ("scaling", "conditioning", "angle", "modules"):
        monkeypatch.setattr(f"benchmarks.{module}.peak", lambda *_, **__: None)
    if name == "aggregation":  # each program would start four times
        monkeypatch.setattr("benchmarks.aggregation.subprocess.run", called)
    monkeypatch.setattr("benchmarks.environments.FOLDER", tmp_path / "peers")  # none installed
    program.run(name, QUICK, tmp_path)
    result, section = written(tmp_path, name)
    assert result["machine"]["threads"] == 1
    assert result["machine"]["versions"]["torch"] == torch.__version__
    assert "| --- |" in section
    assert SAYS.get(name, "") in section
    assert f"](results/{name}.png)" in section
    before = (tmp_path / "README.md").read_bytes()
    program.run(name, QUICK, tmp_path, redraw=True)
    assert (tmp_path / "README.md").read_bytes() == before


@pytest.mark.parametrize("benchmark", [gpu, gpu_training])
def test_benchmarks_of_devices_on_this_processor(benchmark, tmp_path):
    result = json.loads(json.dumps(benchmark.measure(QUICK, device="cpu")))
    section, figure = benchmark.markdown(result), benchmark.figure(result)
    report.write("device", benchmark.TITLE, result, section, figure, tmp_path)
    points = written(tmp_path, "device")[0]["points"]
    ways = gpu.WORKS if benchmark is gpu else gpu_training.LABELS
    assert all(point["seconds"].keys() == ways.keys() for point in points)
    assert all({"extremes", "angle"} < p["differences"].keys() for p in points if benchmark is gpu)
    assert "not measured" in section or benchmark is gpu_training  # targets are of another size

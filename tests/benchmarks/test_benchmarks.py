import importlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import block, conditioning, gpu, gpu_training, loops, modules, training, workers
from benchmarks.memory import peak
from benchmarks.problem import DifferentResultError, Problem
from benchmarks.report import HERE
from benchmarks.settings import Settings
from ntk_conditioning.kernels.empirical import ntk

QUICK = Settings(threads=1, rounds=1, quick=True)
WITHOUT_DEVICE = ["block", "conditioning", "angle", "training", "modules", "products"]
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


def section_of(folder: Path, name: str) -> str:
    text = (folder / "README.md").read_text(encoding="utf-8")
    section = text.split(f"<!-- {name}: written by python -m benchmarks {name} -->\n")[1]
    return section.split(f"<!-- end of {name} -->")[0]


def test_a_peer_is_timed_if_its_kernel_is_the_same(tmp_path, monkeypatch):
    problem = Problem(20, 2, "float64", d=30, width=16)
    case = block.Case(problem, ("torch_func",))
    np.save(tmp_path / "kernel.npy", ntk(problem.network(), problem.data()).numpy())
    monkeypatch.setattr(workers, "PROGRAMS", tmp_path)

    def measured(program: str, factor: str) -> dict[str, Any]:
        (tmp_path / "peer.py").write_text(program)
        monkeypatch.setitem(block.PEERS, "torch_func", workers.Peer("a peer", "peer.py", factor))
        return block.measure_case(case, QUICK)

    program = WORKER.replace("KERNEL", str(tmp_path / "kernel.npy"))
    result = measured(program, "1")
    assert result["missing"] == {}
    assert len(result["seconds"]["torch_func"]) == QUICK.rounds
    assert result["ratios"]["torch_func"]["median"] > 0
    for factor in ("1.00000000001", "nan"):
        with pytest.raises(DifferentResultError, match=r"a peer: .* not compared"):
            measured(program, factor)
    result = measured("import sys; sys.exit('no such library')", "1")
    assert result["missing"] == {"torch_func": "it ended with code 1: no such library"}
    assert "torch_func" not in result["ratios"]


def test_all_ways_end_with_the_same_weights_and_other_eigenvalues_are_refused():
    differences = training.compare(NETWORKS, threads=1)
    assert set(differences) == {"torch", "loader"}
    assert max(differences.values()) < loops.SAME
    assert conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-9)) == pytest.approx(1e-9)
    with pytest.raises(DifferentResultError, match="not compared"):
        conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-7))


@pytest.mark.parametrize("name", WITHOUT_DEVICE)
def test_a_quick_run_writes_numbers_and_section(name: str, tmp_path, monkeypatch):
    # without memory: each point would start a process
    monkeypatch.setattr("benchmarks.memory.STATUS", tmp_path / "no file")
    monkeypatch.setattr("benchmarks.modules.QUICK", modules.QUICK[:1])
    monkeypatch.setattr("benchmarks.workers.FOLDER", tmp_path / "peers")  # none installed
    program.run(name, QUICK, tmp_path)
    result = json.loads((tmp_path / "results" / f"{name}.json").read_text(encoding="utf-8"))
    section = section_of(tmp_path, name)
    assert result["machine"]["threads"] == 1
    assert result["machine"]["versions"]["torch"] == torch.__version__
    assert "| --- |" in section
    assert SAYS.get(name, "") in section
    before = (tmp_path / "README.md").read_bytes()
    program.run(name, QUICK, tmp_path, redraw=True)
    assert (tmp_path / "README.md").read_bytes() == before


@pytest.mark.parametrize("name", program.NAMES)
def test_committed_sections_are_those_of_the_committed_results(name: str):
    result = json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))
    module = importlib.import_module(f"benchmarks.{name}")
    assert section_of(HERE, name).strip() == module.markdown(result).strip()


def test_memory_of_a_call_is_measured_in_a_process_of_its_own():
    measured = peak(partial, np.ones, 20_000_000, threads=1)  # of 8 bytes each
    assert measured is None or 150e6 < measured.growth < 200e6


@pytest.mark.parametrize("benchmark", [gpu, gpu_training])
def test_benchmarks_of_devices_on_this_processor(benchmark):
    result = json.loads(json.dumps(benchmark.measure(QUICK, device="cpu")))
    assert "| --- |" in benchmark.markdown(result)
    points = result["points"]
    ways = gpu.WORKS if benchmark is gpu else gpu_training.LABELS
    assert all(point["seconds"].keys() == set(ways) for point in points)
    assert all({"extremes", "angle"} < p["differences"].keys() for p in points if benchmark is gpu)

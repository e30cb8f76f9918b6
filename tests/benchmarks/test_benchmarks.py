"""The benchmarks at tiny sizes: what they write, and what they refuse to compare."""

import doctest
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import __main__ as program
from benchmarks import (
    block,
    checkpoints,
    conditioning,
    gpu,
    loops,
    memory,
    report,
    scaling,
    timing,
    training,
    workers,
)
from benchmarks.problem import DifferentResultError, Problem
from benchmarks.settings import Settings
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.mlp import gradient_factors

QUICK = Settings(threads=1, rounds=1, quick=True)
QUICKLY = ["block", "scaling", "conditioning", "angle", "orthogonality", "cell", "speech"]
QUICKLY += ["training", "aggregation"]
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


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes the given program the only peer."""

    def replace(text: str, mode: str = "1") -> None:
        (tmp_path / "peer.py").write_text(text)
        monkeypatch.setattr(workers, "PROGRAMS", tmp_path)
        monkeypatch.setitem(block.PEERS, "torch_func", workers.Peer("a peer", "peer.py", mode))

    return replace


def case(dtype: str) -> block.Case:
    return block.Case(Problem(20, 2, dtype, d=30, width=16), ("torch_func",), {"torch_func": 1e-9})


def written(folder: Path, name: str) -> tuple[dict[str, Any], str]:
    """Return what a benchmark has written: its numbers and its section."""
    assert (folder / "results" / f"{name}.png").stat().st_size < 100_000
    text = (folder / "README.md").read_text(encoding="utf-8")
    section = text.split(f"<!-- {name}: written by python -m benchmarks {name} -->\n")[1]
    result = json.loads((folder / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return result, section.split(f"<!-- end of {name} -->")[0]


def test_modules_have_working_examples() -> None:
    for module in (report, timing, checkpoints):
        assert doctest.testmod(module) == (0, doctest.testmod(module).attempted)


# --- operations -----------------------------------------------------------------------------------


def test_needed_flops_are_those_that_torch_counts() -> None:
    asked = Problem(n=24, depth=3, d=5, width=7)
    mlp, x = asked.network(), asked.data()
    with FlopCounterMode(display=False) as counter:
        factors = gradient_factors(mlp, x)
        for factor in (*factors.alphas, *factors.deltas):
            torch.mm(factor, factor.T)
    # of symmetric products half is needed
    products = sum(2 * 24**2 * f.shape[1] for f in (*factors.alphas, *factors.deltas))
    assert asked.flops == counter.get_total_flops() - products / 2


def test_the_products_alone_are_those_that_a_step_of_pytorch_calls() -> None:
    alone = loops.Products(NETWORKS)
    loop = loops.PlainLoop(NETWORKS, loops.weights(NETWORKS.ensemble(epochs=1)))
    with FlopCounterMode(display=False) as theirs:
        loop.epoch()
    with FlopCounterMode(display=False) as ours:
        alone.epoch()
    assert theirs.get_total_flops() == ours.get_total_flops() == NETWORKS.steps * alone.flops


# --- turns ----------------------------------------------------------------------------------------


def test_methods_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "REST", 0.0)
    calls = []

    def method(name: str) -> timing.Timed:
        return lambda: calls.append(name) or float(len(calls))

    taken = timing.interleaved({"a": method("a"), "b": method("b")}, rounds=3, most={"b": 2})
    assert calls == ["a", "b", "a", "b", "a"]
    assert taken == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0]}


def test_targets_say_whether_they_are_met() -> None:
    cases = [("at least", 2.0, True), ("at least", 1.9, False), ("at most", 2.1, False)]
    targets = [report.Target("speed", sense, 2.0, measured) for sense, measured, _ in cases]
    rows = report.target_rows([*targets, report.Target("speed", "at most", 2.0, None)])
    assert [row["met"] for row in rows] == [*(met for _, _, met in cases), None]
    verdicts = [line.split(" | ")[-1] for line in report.target_table(rows)[2:-1]]
    assert verdicts == ["met |", "**not met** |", "**not met** |", "not measured |"]


def test_benchmarks_of_devices_and_training_judge_the_point_of_each_bar() -> None:
    seconds = {"kernel": [9.0], "extremes": [50.0, 70.0, 59.0], "angle": [30.0, 5.0, 32.0]}
    point: dict[str, Any] = {"n": gpu.JUDGED_SIZE, "dtype": "float64", "seconds": seconds}
    other = {**point, "dtype": "float32", "seconds": {}}
    assert [target.measured for target in gpu.judge([other, point])] == [59.0, 80.0]
    assert [target.met for target in gpu.judge([other])] == [None, None]
    point = {"depth": training.JUDGED_DEPTH, "networks": 8, "width": 512}
    medians = {"share_of_products": {"ours": {"median": 0.9}}, "ratios": {"torch": {"median": 0.9}}}
    saved = {"trained": {"networks": 8, "depth": 5}, "shares": [0.01, 0.03, 0.01]}
    met = [target.met for target in training.judge([point | medians], saved, None)]
    assert met == [True, False, True, None]


# --- comparison -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "factors"), [("float64", ["1.00000000001", "nan"]), ("float32", ["1.2"])]
)
def test_a_peer_is_timed_if_its_kernel_is_the_same(
    peer: Any, dtype: str, factors: list[str], tmp_path: Path
) -> None:
    ours = ntk(case(dtype).problem.network(), case(dtype).problem.data())
    np.save(tmp_path / "kernel.npy", ours.numpy())
    program = WORKER.replace("KERNEL", str(tmp_path / "kernel.npy"))
    peer(program)
    result = block.measure_case(case(dtype), QUICK, gemm_size=32)
    assert not result["missing"]
    assert len(result["seconds"]["torch_func"]) == QUICK.rounds
    assert result["ratios"]["torch_func"]["median"] > 0
    assert [target.met for target in block.judge(case(dtype), result)] == [True]
    for factor in factors:
        peer(program, factor)
        with pytest.raises(DifferentResultError, match=r"a peer: .* not compared"):
            block.measure_case(case(dtype), QUICK, gemm_size=32)


def test_a_peer_that_fails_is_left_out(peer: Any) -> None:
    peer("import sys; sys.exit('no such library')")
    result = block.measure_case(case("float64"), QUICK, gemm_size=32)
    assert result["missing"] == {"torch_func": "it ended with code 1: no such library"}
    assert [target.met for target in block.judge(case("float64"), result)] == [None]


def test_other_eigenvalues_are_refused() -> None:
    assert conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-9)) == pytest.approx(1e-9)
    with pytest.raises(DifferentResultError, match="not compared"):
        conditioning.require_same("x", (2.0, 1.0), (2.0, 1.0 + 1e-7))


def test_all_ways_of_training_end_with_the_same_weights() -> None:
    differences = training.compare(NETWORKS, threads=1)
    assert set(differences) == {"together", "torch"}
    assert max(differences.values()) < loops.SAME


@pytest.mark.parametrize("wrong", [{"rates": (0.5, 1.03)}, {"n": 32}, {"rates": (0.5, np.nan)}])
def test_another_training_is_refused(wrong: dict[str, Any]) -> None:
    ensemble, other = NETWORKS.ensemble(epochs=1), replace(NETWORKS, **wrong)
    start = loops.weights(ensemble)
    loop = loops.PlainLoop(other, start)
    loop.epoch()
    for _ in range(2):
        ensemble.advance()
    with pytest.raises(DifferentResultError, match=r"a loop: .* not compared"):
        loops.require_same_weights("a loop", loop.weights(), loops.weights(ensemble), start)


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICKLY)
def test_a_quick_run_writes_numbers_figure_and_section(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("scaling", "conditioning", "angle"):  # each point would start a process
        monkeypatch.setattr(f"benchmarks.{module}.peak", lambda *_, **__: None)
    program.run(name, QUICK, tmp_path)
    result, section = written(tmp_path, name)
    assert result["machine"]["threads"] == 1
    assert result["machine"]["versions"]["torch"] == torch.__version__
    assert "| --- |" in section
    if name == "training" and not torch.cuda.is_available():
        assert "for there is no CUDA device here" in section
    assert f"](results/{name}.png)" in section
    before = (tmp_path / "README.md").read_bytes()
    program.run(name, QUICK, tmp_path, redraw=True)
    assert (tmp_path / "README.md").read_bytes() == before


def test_peers_that_are_not_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = block.Case(Problem(20, 2, d=30, width=16), ("neural_tangents",), {})
    monkeypatch.setattr(block, "QUICK", (absent,))
    monkeypatch.setattr("benchmarks.environments.FOLDER", tmp_path / "peers")
    program.run("block", QUICK, tmp_path)
    result, section = written(tmp_path, "block")
    assert list(result["cases"][0]["missing"]) == ["neural_tangents"]
    assert "neural-tangents, structured derivatives was not measured" in section


def test_the_gpu_benchmark_on_this_processor(tmp_path: Path) -> None:
    result = gpu.measure(QUICK, device="cpu")
    section, figure = gpu.markdown(result), gpu.figure(result)
    report.write("gpu", gpu.TITLE, result, section, figure, tmp_path)
    points = written(tmp_path, "gpu")[0]["points"]
    assert {p["dtype"] for p in points} == {"float64", "float32"}
    assert all({"extremes", "angle"} < p["differences"].keys() for p in points)
    assert all(p["seconds"].keys() == gpu.WORKS.keys() for p in points)
    assert section.count("not measured") == 2  # the targets are those of another size


def test_training_on_a_device_on_this_processor() -> None:
    result = training.measure_device(QUICK, device="cpu")
    assert result["networks"] == len(training.TINY["rates"]) * training.SAVED.seeds
    assert set(result["seconds"]) == {"together", "separate"}
    assert "times as long" in training.about_device(result)[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "hold_process", lambda threads: None)
    assert program.main(["gpu", "--folder", str(tmp_path)]) == 2
    (record,) = caplog.records
    assert record.message == "gpu: there is no CUDA device here, so nothing is measured"
    assert not list(tmp_path.iterdir())


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["blocks"])
    assert "no benchmark is called blocks" in capsys.readouterr().err


def test_the_readme_has_a_place_for_every_benchmark_and_the_rest_stays() -> None:
    text = (report.HERE / "README.md").read_text(encoding="utf-8")
    for name in set(program.NAMES) - {"gpu"}:  # which is added where there is a device
        title = importlib.import_module(f"benchmarks.{name}").TITLE
        new = report.with_section(text, name, title, "new\n")
        assert new.count(f"## {title}\n") == 1
        assert new.count("<!--") == text.count("<!--")
        assert report.with_section(new, name, title, "new\n") == new
    both = report.with_section(report.with_section("# B\n", "x", "X", "one\n"), "y", "Y", "two\n")
    assert report.with_section(both, "x", "X", "three\n") == both.replace("one", "three")
    lost = both.replace("<!-- end of x -->\n", "")
    assert "two" in report.with_section(lost, "x", "X", "four\n")


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not memory.STATUS.exists(), reason="only Linux tells it")
def test_peak_memory_is_at_least_the_result() -> None:
    sizes = {"n": 1000, "depth": 1, "d": 4, "width": 8}
    peak = memory.peak("ntk", threads=1, **sizes)
    assert 0.95 < peak.growth / Problem(**sizes).kernel_bytes < 3
    assert peak.process > peak.growth


def test_the_exponent_is_that_of_a_power() -> None:
    points = [{"n": n, "depth": 5, "seconds": [1e-6 * n**2] * 3} for n in (64, 128, 256, 512)]
    exponents = scaling.exponent([*points, {"n": 128, "depth": 1, "seconds": [9.0]}])
    assert exponents == {"all": pytest.approx(2), "larger_half": pytest.approx(2)}

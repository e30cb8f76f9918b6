"""The real program prepares datasets, or says in one line what is wrong with them."""

import json
import logging
import platform
from pathlib import Path
from typing import Any

import numpy as np
import prepare_dataset
import pytest
import threadpoolctl
import torch
import yaml

from ntk_conditioning import seeds
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared
from ntk_workflow import cli
from tests.support.sources import idx_entry

DATA, DATASHEET = Path("out/data.npz"), Path("out/data.json")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def arguments(name: str, entry: object, *options: str) -> list[str]:
    """Return a command line for an entry of that name, or for the text of a catalogue."""
    text = entry if isinstance(entry, str) else yaml.safe_dump({name: entry})
    Path("catalogue.yaml").write_text(text)
    files = [f"--output={DATA}", f"--datasheet={DATASHEET}"]
    return [f"--dataset={name}", "--catalogues=catalogue.yaml", *files, *options]


def prepare(name: str, entry: object, *options: str) -> PreparedSamples:
    """Return the samples of a call that must succeed."""
    assert prepare_dataset.main(arguments(name, entry, *options)) == 0
    return load_prepared(DATA)


OPTIONS = {"n": 30, "d": 4, "seed": 7}
GAUSSIAN = {"title": "Small", "reader": "gaussian", "options": OPTIONS, "scaling": "none"}


@pytest.fixture
def tiny() -> tuple[dict[str, Any], str, str, str]:
    """An entry of MNIST's kind with 40 images of 3 × 3 in 4 classes, and its --parts."""
    images = np.arange(40 * 9).reshape(40, 3, 3) ** 2 % 251
    entry = idx_entry(Path(), "tiny", train_x=images, train_y=np.arange(40) % 4)
    return entry, "--parts", "train_x=train_x.gz", "train_y=train_y.gz"


class TestResult:
    def test_equal_samples_are_told_on_the_terminal_by_their_rows_in_the_file(self, capsys):
        x = np.arange(40.0).reshape(20, 2)
        x[[7, 15]] = 2 * x[3]  # of one norm they are equal
        np.savez("mine.npz", x=x)
        entry = {"title": "Mine", "reader": "npz", "path": "mine.npz", "scaling": "unit_norm"}
        for options in ((), ("--samples=19", "--seed=1")):
            prepare("mine", entry, *options)
            line, err = capsys.readouterr()
            assert line.startswith(
                "mine: samples 3 and 7, 3 and 15, and 1 more pair are equal (count"
            )
            assert "set exclude_duplicates: true" in line
            assert line in err

    def test_the_whole_dataset_and_its_light_datasheet(self, capsys):
        data = prepare("small", GAUSSIAN)
        np.testing.assert_array_equal(data.x, seeds.generator(7, "data").standard_normal((30, 4)))
        assert data.name == "small"
        out, err = capsys.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        assert "small, train: 30 of 30 samples, 4 features of type float64, no labels, s" in line
        sheet = json.loads(DATASHEET.read_text())
        assert (sheet["n"], sheet["available"], sheet["classes"]) == (30, 30, None)
        assert (sheet["seed"], sheet["balanced"]) == (None, False)
        assert not {"duplicates", "norm_min", "min_angle"} & set(sheet)

    def test_a_balanced_draw_of_files_has_the_same_bytes_again(self, tiny, capsys):
        results = []
        for seed in (4, 3, 3):
            data = prepare("tiny", *tiny, "--samples=10", "--balanced", f"--seed={seed}")
            results.append((DATA.read_bytes(), DATASHEET.read_bytes()))
        assert results[0][0] != results[1][0]
        assert results[1] == results[2]
        assert {*DATA.parent.iterdir()} == {DATA, DATASHEET}
        assert data.x.shape == (10, 9)
        assert (np.abs(data.x) <= 1).all()
        assert np.bincount(data.y).tolist() == [3, 3, 2, 2]
        sheet = json.loads(DATASHEET.read_text())
        assert (sheet["n"], sheet["d"], sheet["classes"], sheet["dtype"]) == (10, 9, 4, "uint8")
        assert (sheet["available"], sheet["seed"], sheet["balanced"]) == (40, 3, True)
        assert "10 of 40 samples" in capsys.readouterr().err


ABSENT = {"title": "M", "reader": "npz", "path": "absent.npz", "scaling": "none"}


class TestRefusal:
    def test_a_file_with_another_checksum(self, tiny, refusal):
        path = Path("train_x.gz")
        path.write_bytes(path.read_bytes() + b"\0")  # gzip itself would overlook this
        line = refusal(prepare_dataset, arguments("tiny", *tiny))
        assert f"{path} has sha256 " in line
        assert "delete it and fetch it again" in line

    @pytest.mark.parametrize(
        ("name", "entry", "options", "problem"),
        [
            ("small", "{not YAML", "", "catalogue.yaml: line 2 not valid YAML: "),
            ("small", "[]", "", "catalogue.yaml: the file: [] is not of type 'object'"),
            ("small", {}, "", "catalogue.yaml: small: 'reader' is a required property"),
            ("Small", GAUSSIAN, "", "catalogue.yaml: the file: 'Small' does not match"),
            ("small", yaml.safe_dump({"smal": GAUSSIAN}), "", "; did you mean 'smal'?"),
            ("small", GAUSSIAN, "--samples 9", "a draw needs --samples N and --seed S"),
            ("small", GAUSSIAN, "--samples 0", "argument --samples: 0 is not above zero"),
            ("small", GAUSSIAN, "--samples x", "argument --samples: 'x' is not a whole numb"),
            ("small", GAUSSIAN, "--seed -1", "argument --seed: -1 is negative"),
            ("small", GAUSSIAN, "--balanced", "--balanced draws samples, so it needs --samples N"),
            ("small", GAUSSIAN, "--parts x", "argument --parts: 'x' is not of the form NAME="),
            ("small", GAUSSIAN, "--parts train_x=a train_x=b", "gives a part twice"),
            ("mine", ABSENT, "", "absent.npz does not exist"),
        ],
    )
    def test_each_mistake_is_one_line(self, refusal, name, entry, options, problem):
        words = arguments(name, entry, *options.split())
        assert refusal(prepare_dataset, words).count(problem) == 1


class TestEveryProgram:
    def test_a_message_of_several_lines_becomes_one(self, capsys):
        @cli.run_main
        def main(argv=None):
            raise cli.UsageError("first\nsecond")

        assert main([]) == 2
        assert capsys.readouterr().err == "test_prepare_dataset: error: first second\n"

    def test_the_lines_of_both_packages_are_shown_during_the_call_only(self, capsys, monkeypatch):
        @cli.run_main
        def main(argv=None):
            for package in ("ntk_conditioning", "ntk_workflow"):
                logging.getLogger(f"{package}.module").info("%s speaks", package)
            return 0

        for _ in range(2):
            assert main([]) == 0
        logging.getLogger("ntk_workflow.module").info("after the call")
        lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
        assert lines == ["ntk_conditioning speaks", "ntk_workflow speaks"] * 2
        monkeypatch.setenv("NTK_JOB", "1")  # a job says on what kind of machine it runs
        assert main([]) == 0
        first = capsys.readouterr().err.splitlines()[0]
        assert first.endswith(f"host {platform.system()} {platform.machine()}")

    @pytest.mark.usefixtures("one_thread")
    def test_the_loaded_libraries_are_limited(self):
        with threadpoolctl.threadpool_limits():  # restores what this test changes
            for threads in (2, 1):
                cli.limit_threads(threads)
                pools = threadpoolctl.threadpool_info()
                assert {pool["num_threads"] for pool in pools} == {torch.get_num_threads()}
                assert torch.get_num_threads() == threads

"""The real program draws frames from a corpus; bytes repeat however it is run."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import extract_speech_features
import numpy as np
import pandas as pd
import pytest

from ntk_conditioning.data.speech.features import FeatureSettings, frame_count, vectors
from tests.unit.speech.corpora import LENGTHS, file_name, flac, make_tar, make_tree, noise
from tests.unit.speech.real_speech import REAL, needs_real_speech

ROOT = Path(__file__).parents[2]
FRAMES = sum(frame_count(samples, FeatureSettings()) for samples in LENGTHS.values())


def run(folder: Path, source: Path, *options: str) -> int:
    return extract_speech_features.main(
        [
            *("--source", str(source), "--subset", "dev"),
            *("--output", str(folder / "x.npz"), "--index", str(folder / "x.parquet"), *options),
        ]
    )


def digests(folder: Path) -> list[str]:
    return [
        hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("x.npz", "x.parquet")
    ]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error's line; there may be lines of the log before it."""
    *_, line = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def test_every_row_is_the_vector_of_its_frame(tree, tmp_path):
    assert run(tmp_path, tree, "--frames", "60") == 0
    with np.load(tmp_path / "x.npz") as archive:
        x, y = archive["x"], archive["y"]
    index = pd.read_parquet(tmp_path / "x.parquet")
    assert x.shape == (60, 768)
    assert x.dtype == np.float32
    assert y.tolist() == index.label.tolist()
    assert index.label_name.tolist() == [["7", "12", "100"][label] for label in y]
    assert index.label_name.tolist() == index.speaker.astype(str).tolist()
    # 560 samples have two frames, so speaker 100 gives 2 and the others 29 each
    assert index.groupby("speaker").size().to_dict() == {7: 29, 12: 29, 100: 2}
    for row, (speaker, chapter, utterance, frame) in enumerate(index.iloc[:, :4].to_numpy()):
        key = (speaker, chapter, utterance)
        expected = vectors(noise(key, LENGTHS[key]), np.array([frame]), FeatureSettings())
        np.testing.assert_array_equal(x[row], expected[0])


def test_bytes_repeat_whatever_the_source_and_the_threads(tree, tmp_path):
    archive = make_tar(tree, tmp_path / "dev.tar.gz")
    found = []
    for number, (source, threads) in enumerate([(tree, 1), (tree, 4), (archive, 1), (archive, 2)]):
        folder = tmp_path / str(number)
        assert run(folder, source, "--frames", "50", "--threads", str(threads)) == 0
        found.append(digests(folder))
    assert found == [found[0]] * 4
    assert run(tmp_path / "seed", tree, "--frames", "50", "--seed", "1") == 0
    assert digests(tmp_path / "seed") != found[0]


def test_all_frames(tree, tmp_path, capsys):
    assert run(tmp_path, tree) == 0
    with np.load(tmp_path / "x.npz") as archive:
        assert len(archive["x"]) == FRAMES
    text = capsys.readouterr().err
    assert "left out: 1 without a frame, 0 unaligned" in text
    assert re.search(rf"drawing {FRAMES} of {FRAMES} frames", text)
    assert re.search(r"of speech in \d+\.\d s, \d+ x real time", text)


def test_more_frames_than_memory_are_refused(tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda _name: 1000)  # a million bytes
    assert run(tmp_path, tree, "--frames", "200") == 0
    assert run(tmp_path / "all", tree, "--settings", '{"stack_left": 100}') == 2
    problem = f"{FRAMES} vectors of 6848 numbers are 0 GB, more than the 0 GB of memory; lower"
    assert problem in one_line(capsys)
    assert not (tmp_path / "all").exists()


def test_labels_are_phones_where_there_are_alignments(tree, tmp_path, capsys):
    alignments = tmp_path / "alignments"
    alignments.mkdir()
    (alignments / "all.ctm").write_text("7-1-0000 1 0 0.5 AH1\n7-1-0000 1 0.5 0.5 T\n")
    options = ("--alignments", str(alignments))
    assert run(tmp_path, tree, *options) == 0
    index = pd.read_parquet(tmp_path / "x.parquet")
    middle = index.frame * 0.01 + 0.0125
    assert (index.label_name == np.where(middle < 0.5, "AH", "T")).all()
    assert "left out: 0 without a frame, 4 unaligned" in capsys.readouterr().err
    # Kaldi's own labels are those of half a shift after the start
    assert run(tmp_path, tree, *options, "--settings", json.dumps({"label_offset_ms": 5})) == 0
    index = pd.read_parquet(tmp_path / "x.parquet")
    assert (index.label_name == np.where(index.frame < 50, "AH", "T")).all()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--frames", "100000"], f"100000 frames asked for, but the corpus has {FRAMES}; lower"),
        (["--subset", "train"], "has no folder train and no LibriSpeech/train"),
        (["--settings", '{"bins": 3}'], "no setting is called bins; they are sample_rate"),
        (["--settings", '{"sample_rate": 8000}'], "16000 Hz, 1 channels, 16 bits; LibriSpeech has"),
        (["--alignments", "absent"], "alignments absent: no such folder"),
        (["--frames", "none"], "argument --frames: 'none' is not a whole number"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tree, tmp_path, capsys, options, problem):
    assert run(tmp_path, tree, *options) == 2
    line = one_line(capsys)
    assert line.startswith("extract_speech_features: error: ")
    assert problem in line
    assert not (tmp_path / "x.npz").exists()
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_utterance_is_named_and_nothing_is_written(tree, tmp_path, capsys, threads):
    path = tree / file_name((12, 3, 0))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert run(tmp_path, tree, "--threads", str(threads)) == 2
    assert "LibriSpeech/dev/12/3/12-3-0000.flac: " in one_line(capsys)
    assert not (tmp_path / "x.npz").exists()


def test_alignments_without_a_common_utterance(tree, tmp_path, capsys):
    (tmp_path / "other.ctm").write_text("1-1-0001 1 0 0.5 AH1\n")
    assert run(tmp_path, tree, "--alignments", str(tmp_path)) == 2
    problem = "no utterance of dev can be used; 0 are shorter than a frame, 5 have no alignment"
    assert problem in one_line(capsys)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """Four times the speech, the same frames: the peak must not follow the waveforms."""
    peaks = []
    for count in (10, 40):
        tree = tmp_path / str(count)
        for number in range(count):
            path = tree / file_name((number, 1, 0))
            path.parent.mkdir(parents=True)
            path.write_bytes(flac(noise((number, 1, 0), 16000 * 30)))
        archive = make_tar(tree, tmp_path / f"{count}.tar.gz")
        program = (
            "import resource, sys; sys.path[:0] = ['src', 'scripts'];"
            "import extract_speech_features as program; code = program.main(sys.argv[1:]);"
            "print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        arguments = ["--subset", "dev", "--frames", "500", "--threads", "2"]
        outputs = ["--output", f"{tree}/x.npz", "--index", f"{tree}/x.parquet"]
        done = subprocess.run(
            [sys.executable, "-c", program, "--source", str(archive), *arguments, *outputs],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        code, peak = map(int, done.stdout.split())
        assert code == 0, done.stderr
        peaks.append(peak / 1024)
    assert peaks[1] - peaks[0] < 8  # MB; 30 more utterances are 29 MB as samples


@needs_real_speech
def test_real_utterances_have_the_frames_of_their_length(tmp_path):
    arguments = ["--source", str(REAL), "--subset", "test-other", "--frames", "800"]
    outputs = ["--output", f"{tmp_path}/x.npz", "--index", f"{tmp_path}/x.parquet"]
    assert extract_speech_features.main([*arguments, *outputs]) == 0
    index = pd.read_parquet(tmp_path / "x.parquet")
    assert (index.groupby("speaker").size() == 100).all()
    assert index.speaker.nunique() == 8
    assert index.groupby(["speaker", "chapter", "utterance"]).ngroups > 70
    with np.load(tmp_path / "x.npz") as archive:
        x = archive["x"]
    assert np.isfinite(x).all()
    assert abs(float(x.mean())) < 0.05
    assert 0.9 < float(x.std()) < 1.1

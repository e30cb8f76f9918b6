"""The real program draws frames from a corpus; bytes repeat however it is run."""

from pathlib import Path

import extract_speech_features
import numpy as np
import pandas as pd
import pytest

from ntk_conditioning.data.speech.features import FeatureSettings, vectors
from tests.ntk_conditioning.data.speech import corpora
from tests.ntk_conditioning.data.speech.corpora import SAMPLE, SUBSET, UTTERANCES, make_tar

FRAMES = 195 + 229 + 188  # of the utterances of make_tree


def arguments(source: Path, *options: str) -> list[str]:
    outputs = ["--output=x.npz", "--index=x.parquet"]
    return [f"--source={source}", f"--subset={SUBSET}", *outputs, *options]


@pytest.fixture
def tree(folder) -> Path:
    return corpora.make_tree(Path("tree"))


def test_every_row_is_the_vector_of_its_frame():
    assert extract_speech_features.main(arguments(SAMPLE, "--frames=60")) == 0
    with np.load("x.npz") as archive:
        x, y = archive["x"], archive["y"]
    index = pd.read_parquet("x.parquet")
    assert (x.shape, x.dtype) == ((60, 768), np.float32)
    speakers = {path: int(path.stem.split("-")[0]) for path in UTTERANCES}
    assert index.speaker.tolist() == np.repeat(sorted(speakers.values()), 5).tolist()
    assert index.label_name.tolist() == index.speaker.astype(str).tolist()
    assert y.tolist() == index.label.tolist() == np.repeat(np.arange(12), 5).tolist()
    for path, speaker in speakers.items():
        rows = (index.speaker == speaker).to_numpy()
        frames = index.frame[rows].to_numpy()
        expected = vectors(corpora.read_waveform(path), frames, FeatureSettings())
        np.testing.assert_array_equal(x[rows], expected)


def test_bytes_repeat_whatever_the_source_and_the_threads(tree):
    archive = make_tar(tree, Path("small.tar.gz"))

    def outputs(source: Path, *options: str) -> list[bytes]:
        call = arguments(source, "--frames=50", *options)
        assert extract_speech_features.main(call) == 0
        return [Path(name).read_bytes() for name in ("x.npz", "x.parquet")]

    usual = outputs(tree)
    for source, threads in ((tree, "4"), (archive, "1"), (archive, "2")):
        assert outputs(source, "--threads", threads) == usual
    assert outputs(tree, "--seed", "1") != usual


def test_labels_are_phones_where_there_are_alignments(tree, capsys):
    spoken = [(0, 0.5, "AH1"), (0.5, 1.965, "T")]
    for name, intervals in (("19-198-0000", spoken), ("19-198-0001", [(0, 1, "T")])):
        Path(f"{name}.TextGrid").write_bytes(corpora.textgrid_bytes(intervals))
    options = ["--alignments=.", "--settings", "label_offset_ms=5"]
    assert extract_speech_features.main(arguments(tree, *options)) == 0
    index = pd.read_parquet("x.parquet")
    assert (index.label_name == np.where(index.frame < 50, "AH", "T")).all()
    text = capsys.readouterr().err
    assert "left out: 1 without a frame, 2 unaligned" in text
    assert "drawing 195 of 195 frames" in text


def test_a_mistake_is_one_line(tree, refusal, monkeypatch):
    def refused(*options: str) -> str:
        return refusal(extract_speech_features, arguments(tree, *options))

    problem = f"100000 frames asked for, but the corpus has {FRAMES}; lower"
    assert problem in refused("--frames=100000")
    name = f"LibriSpeech/{SUBSET}/328/129766/328-129766-0000.flac"
    data = bytearray((tree / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tree / name).write_bytes(data)
    assert f"{name} cannot be read as FLAC: " in refused("--threads", "3")
    monkeypatch.setattr("ntk_conditioning.memory.available_bytes", lambda: 10**6)
    problem = f"a matrix {FRAMES} × 6848 takes 0.0 GB of the host's memory, of which 0.0 GB"
    assert problem in refused("--settings", "stack_left=100")

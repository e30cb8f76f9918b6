"""The real programs prepare and describe data, or say in one line what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import describe_dataset
import extract_speech_features
import numpy as np
import pandas as pd
import prepare_dataset
import pytest
import yaml

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, content_digest, load_prepared
from ntk_conditioning.data.speech.features import FeatureSettings, vectors
from tests.ntk_conditioning.data.speech import corpora
from tests.ntk_conditioning.data.speech.corpora import SAMPLE, SUBSET, UTTERANCES, make_tar
from tests.support.sources import idx_entry

DATA, DATASHEET, ROW = Path("out/data.npz"), Path("out/data.json"), Path("out/row.parquet")
MINE = {"title": "Mine", "reader": "npz", "path": "mine.npz", "scaling": "unit_norm"}
GAUSSIAN = {"title": "Small", "reader": "gaussian", "options": {"n": 30, "d": 4, "seed": 7}}
GAUSSIAN |= {"scaling": "none"}


def arguments(entry: object, *options: str) -> list[str]:
    Path("catalogue.yaml").write_text(yaml.safe_dump({"mine": entry}))
    files = [f"--output={DATA}", f"--datasheet={DATASHEET}"]
    return ["--dataset=mine", "--catalogues=catalogue.yaml", *files, *options]


def prepare(entry: object, *options: str) -> PreparedSamples:
    assert prepare_dataset.main(arguments(entry, *options)) == 0
    return load_prepared(DATA)


@pytest.fixture
def tiny(folder) -> tuple[dict[str, Any], str, str]:
    """An entry of MNIST's kind with 40 images of 3 × 3 in 4 classes, and its --parts."""
    images = np.arange(40 * 9).reshape(40, 3, 3) ** 2 % 251
    entry = idx_entry(Path(), "mine", train_x=images, train_y=np.arange(40) % 4)
    return entry, "--parts", "train_x=train_x.gz", "train_y=train_y.gz"


def test_equal_samples_are_told_on_the_terminal_by_their_rows_in_the_file(capsys):
    x = np.arange(40.0).reshape(20, 2)
    x[[7, 15]] = 2 * x[3]  # of equal norm they are equal
    np.savez("mine.npz", x=x)
    for options in ((), ("--samples=19", "--seed=1")):
        prepare(MINE, *options)
        line, err = capsys.readouterr()
        assert line.startswith("mine: samples 3 and 7, 3 and 15, and 1 more pair are equal (count")
        assert "set exclude_duplicates: true" in line
        assert line in err


def test_a_balanced_draw_of_files_has_the_same_bytes_again(tiny):
    results = []
    for seed in (4, 3, 3):
        data = prepare(*tiny, "--samples=10", "--balanced", f"--seed={seed}")
        results.append((DATA.read_bytes(), DATASHEET.read_bytes()))
    assert results[0] != results[1] == results[2]
    assert {*DATA.parent.iterdir()} == {DATA, DATASHEET}
    assert data.x.shape == (10, 9)
    assert (np.abs(data.x) <= 1).all()
    assert np.bincount(data.y).tolist() == [3, 3, 2, 2]
    expected = {"n": 10, "d": 9, "classes": 4, "dtype": "uint8", "available": 40, "seed": 3}
    expected |= {"min": (x := np.load(DATA)["x"]).min(), "max": x.max()}
    assert json.loads(DATASHEET.read_text()).items() >= (expected | {"balanced": True}).items()


def test_a_file_with_another_checksum_is_refused(tiny, refusal):
    path = Path("train_x.gz")
    path.write_bytes(path.read_bytes() + b"\0")  # gzip itself would overlook this
    line = refusal(prepare_dataset, arguments(*tiny))
    assert f"{path} has sha256 " in line
    assert "delete it and fetch it again" in line


MISTAKES = [
    ({}, "", "catalogue.yaml: mine: 'reader' is a required property"),
    (GAUSSIAN, "--samples 9", "a draw needs --samples N and --seed S"),
    (GAUSSIAN, "--samples 0", "argument --samples: 0 is not a whole number above"),
    (MINE, "", "mine.npz does not exist"),
]


@pytest.mark.parametrize(("entry", "options", "problem"), MISTAKES)
def test_each_mistake_is_one_line(refusal, entry, options, problem):
    assert refusal(prepare_dataset, arguments(entry, *options.split())).count(problem) == 1


def described(x: np.ndarray, *draw: str, **labels: np.ndarray) -> dict[str, Any]:
    """Return the row that describes prepared samples, which has the same bytes again."""
    np.savez("mine.npz", x=x, **labels)
    prepare(MINE | {"scaling": "unit_interval", "value_range": [0, 10]}, *draw)
    files = [f"--data={DATA}", f"--datasheet={DATASHEET}", "--dataset=mine", f"--output={ROW}"]
    written = []
    for _ in range(2):
        assert describe_dataset.main(files) == 0
        written.append(ROW.read_bytes())
    assert written[0] == written[1]
    (row,) = tables.read(ROW, "datasets").to_pylist()
    return row


def test_a_description_by_hand():
    x = np.array([[3, 4, 9], [0, 5, 9], [3, 4, 9], [3, 4, 9]], dtype=np.uint8)
    y = np.array([1, 1, 7, 1])
    row = described(x, "--samples=4", "--seed=3", y=y)
    floats = [row.pop(name) for name in ("norm_min", "norm_median", "norm_max", "min_angle")]
    expected = {"dataset": "mine", "seed": 3, "n": 4, "d": 3, "dtype": "uint8", "i": 0, "j": 1}
    expected |= {"classes": 2, "class_min": 1, "class_max": 3, "scaling": "unit_interval"}
    expected |= {"min": 0.0, "max": 9.0, "constant_columns": 1, "gram_rank": 2, "duplicates": 3}
    digest = content_digest(PreparedSamples("mine", x, y, "unit_interval", (0.0, 10.0)))
    assert row == expected | {"sha256": digest}
    # both samples, (0.3, 0.4, 0.9) and (0, 0.5, 0.9), have norm² 1.06 and inner product 1.01
    angle = np.degrees(np.arccos(1.01 / 1.06))
    np.testing.assert_allclose(floats, [1.06**0.5] * 3 + [angle], rtol=1e-14)


def test_what_does_not_exist_is_missing_in_a_description():
    row = described(np.full((3, 2), 5.0))
    missing = ["seed", "classes", "class_min", "class_max", "min_angle", "i", "j"]
    assert [name for name in row if row[name] is None] == missing
    assert row["duplicates"] == 3


FRAMES = 195 + 229 + 188  # of the utterances of make_tree


def speech(source: Path, *options: str) -> list[str]:
    outputs = ["--output=x.npz", "--index=x.parquet"]
    return [f"--source={source}", f"--subset={SUBSET}", *outputs, *options]


@pytest.fixture
def tree(folder) -> Path:
    return corpora.make_tree(Path("tree"))


def test_every_row_is_the_vector_of_its_frame():
    assert extract_speech_features.main(speech(SAMPLE, "--frames=60")) == 0
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


def test_speech_has_the_same_bytes_whatever_the_source_and_the_threads(tree):
    archive = make_tar(tree, Path("small.tar.gz"))

    def outputs(source: Path, *options: str) -> list[bytes]:
        call = speech(source, "--frames=50", *options)
        assert extract_speech_features.main(call) == 0
        return [Path(name).read_bytes() for name in ("x.npz", "x.parquet")]

    usual = outputs(tree)
    for source, threads in ((tree, "4"), (archive, "1"), (archive, "2")):
        assert outputs(source, "--threads", threads) == usual
    assert outputs(tree, "--seed", "1") != usual


def test_labels_are_phones_where_there_are_alignments(tree, capsys):
    spoken = [(0, 0.5, "AH1"), (0.5, 1.965, "T")]
    for name, intervals in (("19-198-0000", spoken), ("19-198-0001", [(0, 1, "T")])):
        corpora.write_textgrid(Path(), intervals, name=name)
    options = ["--alignments=.", "--settings", "label_offset_ms=5"]
    assert extract_speech_features.main(speech(tree, *options)) == 0
    index = pd.read_parquet("x.parquet")
    assert (index.label_name == np.where(index.frame < 50, "AH", "T")).all()
    text = capsys.readouterr().err
    assert "left out: 1 without a frame, 2 unaligned" in text
    assert "drawing 195 of 195 frames" in text


def test_a_mistake_in_speech_is_one_line(tree, refusal, monkeypatch):
    def refused(*options: str) -> str:
        return refusal(extract_speech_features, speech(tree, *options))

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

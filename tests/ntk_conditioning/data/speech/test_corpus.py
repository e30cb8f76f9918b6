"""A corpus reads alike from its archive and unpacked, and no damage gives other audio."""

import re
import shutil

import numpy as np
import pytest
import yaml

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.speech.corpus import count_samples, decode, utterances
from ntk_conditioning.data.speech.features import FeatureSettings, frame_count
from tests.ntk_conditioning.data.speech import corpora
from tests.ntk_conditioning.data.speech.corpora import SAMPLE, SUBSET, UTTERANCES, flac

RATE = 16000
NOISE = np.random.default_rng(0).integers(-900, 900, 900).astype(np.int16)


def content(source, subset: str = SUBSET) -> dict[str, bytes]:
    return {utterance.name: utterance.load() for utterance in utterances(source, subset)}


def test_archive_and_tree_are_alike_wherever_the_tree_starts(tmp_path):
    tree = corpora.make_tree(tmp_path / "tree")
    expected = {path.stem: path.read_bytes() for path in tree.rglob("*.flac")}
    archive = corpora.make_tar(tree, tmp_path / "small.tar.gz")
    for source in (tree, tree / "LibriSpeech", tree / "LibriSpeech" / SUBSET, archive):
        assert content(source) == expected
        names = [utterance.name for utterance in sorted(utterances(source, SUBSET))]
        assert names == ["19-198-0000", "19-198-0001", "328-129766-0000", "403-126855-0000"]
    with pytest.raises(ContentError, match=r"small\.tar\.gz has no utterance of dev-clean"):
        content(archive, "dev-clean")
    with pytest.raises(ContentError, match="has no folder dev-clean and no LibriSpeech/dev-clean"):
        content(tree, "dev-clean")
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"small\.tar\.gz cannot be read as a tar archive: "):
        content(archive)


@pytest.mark.parametrize("new", ["19/198/19_198_0000", "19/198/18-198-0000", "19/12/19-198-0000"])
def test_a_file_in_the_wrong_place_is_named(tmp_path, new):
    target = corpora.make_tree(tmp_path) / "LibriSpeech" / SUBSET / f"{new}.flac"
    target.parent.mkdir(exist_ok=True)
    shutil.move(tmp_path / "LibriSpeech" / SUBSET / "19/198/19-198-0000.flac", target)
    with pytest.raises(ContentError, match=f"{new}.flac is not <speaker>/<chapter>/<speaker>-<ch"):
        content(tmp_path)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"RIFF" + bytes(60), "cannot be read as FLAC"),
        (flac(NOISE)[:41], "cannot be read as FLAC"),
        (flac(NOISE, rate=8000), "8000 Hz, 1 channels, PCM_16; LibriSpeech has FLAC, 16000 Hz"),
        (flac(np.stack([NOISE, NOISE], axis=1)), "16000 Hz, 2 channels"),
        (flac(NOISE / 1000, subtype="PCM_24"), "PCM_24"),
    ],
)
def test_another_kind_of_file_is_named(data, problem):
    for read in (count_samples, decode):
        with pytest.raises(FormatError, match=rf"a\.flac.*{re.escape(problem)}"):
            read(data, source="a.flac", sample_rate=RATE)


def test_the_shipped_utterances_are_whole_and_enough_for_equal_shares_of_the_demo():
    demo = yaml.safe_load((SAMPLE.parents[1] / "config.yaml").read_text())
    for utterance, path in zip(utterances(SAMPLE, SUBSET), UTTERANCES, strict=True):
        waveform = decode(utterance.load(), source=path.name, sample_rate=RATE)
        np.testing.assert_array_equal(waveform, corpora.read_waveform(path))
        assert count_samples(utterance.load(), source="", sample_rate=RATE) == len(waveform)
        assert frame_count(len(waveform), FeatureSettings()) >= demo["speech"]["frames"] / 12

"""A corpus reads alike from its archive and unpacked, and frames are drawn from all speakers."""

import re
import shutil

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.speech.corpus import Utterance, count_samples, decode, utterances
from ntk_conditioning.data.speech.extraction import draw_frames, equal_shares
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


def corpus(frames: dict[tuple[int, int], int]) -> dict[Utterance, int]:
    """Return utterances (speaker, number) with that many frames."""
    return {
        Utterance(speaker, 1, number, f"{speaker}-1-{number}", "", bytes): count
        for (speaker, number), count in frames.items()
    }


def draw(available: dict[Utterance, int], n: int, seed: int = 0) -> dict[Utterance, np.ndarray]:
    return draw_frames(available, n, generator=np.random.default_rng(seed))


NAMES = st.tuples(st.integers(1, 6), st.integers(0, 4))


@given(st.dictionaries(NAMES, st.integers(1, 30), min_size=1), st.data())
def test_a_draw_has_as_many_frames_as_asked_each_once_and_each_there(frames, data):
    available, n = corpus(frames), data.draw(st.integers(1, sum(frames.values())))
    drawn = draw(available, n)
    assert sum(map(len, drawn.values())) == n
    for utterance, chosen in drawn.items():
        assert len(chosen)
        assert (np.diff(chosen) > 0).all()
        assert 0 <= chosen[0] <= chosen[-1] < available[utterance]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.data())
def test_shares_are_equal_but_for_one_and_for_those_who_have_less(have, data):
    n = data.draw(st.integers(0, sum(have)))
    shares = np.array(equal_shares(have, n, generator=np.random.default_rng(0)))
    assert sum(shares) == n
    assert (shares <= have).all()
    assert (max(shares) <= shares[shares < have] + 1).all()


def test_the_draw_is_uniform_within_a_speaker():
    available = corpus({(1, 0): 30, (1, 1): 10})
    counts = np.zeros(40)
    for seed in range(1000):
        for utterance, chosen in draw(available, 10, seed).items():
            counts[chosen + 30 * utterance.utterance] += 1
    # binomial(1000, 1/4): mean 250, deviation 13.7
    assert abs(counts - 250).max() < 5 * 13.7

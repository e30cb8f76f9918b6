"""A corpus reads alike from its archive and unpacked, and no damage gives other audio."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from ntk_conditioning.data.speech.corpus import (
    AudioError,
    CorpusError,
    count_samples,
    decode,
    utterances,
)
from ntk_conditioning.data.tars import TarError
from ntk_conditioning.errors import UserError
from tests.unit.speech.corpora import LENGTHS, file_name, flac, make_tar, make_tree, noise
from tests.unit.speech.real_speech import REAL, REAL_UTTERANCES, needs_real_speech

RATE = 16000


def content(source, subset: str = "dev") -> dict[str, bytes]:
    return {utterance.name: utterance.load() for utterance in utterances(source, subset)}


class TestUtterances:
    def test_archive_and_tree_are_alike_wherever_the_tree_starts(self, tmp_path):
        tree = make_tree(tmp_path / "tree")
        expected = {
            file_name(utterance).split("/")[-1].removesuffix(".flac"): flac(
                noise(utterance, samples)
            )
            for utterance, samples in LENGTHS.items()
        }
        for source in (tree, tree / "LibriSpeech", tree / "LibriSpeech" / "dev"):
            assert content(source) == expected
        assert content(make_tar(tree, tmp_path / "dev.tar.gz")) == expected

    def test_the_order_is_of_numbers(self, tmp_path):
        found = list(utterances(make_tree(tmp_path), "dev"))
        numbers = [(u.speaker, u.chapter, u.utterance) for u in sorted(found)]
        assert numbers == sorted(LENGTHS)

    def test_another_subset_is_not_read(self, tmp_path):
        tree = make_tree(tmp_path / "tree")
        archive = make_tar(tree, tmp_path / "dev.tar.gz")
        with pytest.raises(CorpusError, match=r"dev\.tar\.gz has no utterance of train-clean-100"):
            content(archive, "train-clean-100")
        with pytest.raises(CorpusError, match="has no folder train-clean-100 and no LibriSpeech/"):
            content(tree, "train-clean-100")

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("7/1/7-1-0000", "7/1/7_1_0000", "not called <speaker>-<chapter>-<utterance>.flac"),
            ("7/1/7-1-0000", "7/1/8-1-0000", "is not in the folder 8/1"),
            ("7/1/7-1-0000", "7/2/7-1-0001", "is not in the folder 7/1"),
        ],
    )
    def test_a_file_in_the_wrong_place_is_named(self, tmp_path, old, new, problem):
        folder = make_tree(tmp_path) / "LibriSpeech" / "dev"
        shutil.move(folder / f"{old}.flac", folder / f"{new}.flac")
        with pytest.raises(CorpusError, match=re.escape(problem)):
            content(tmp_path)

    def test_a_cut_archive_is_named(self, tmp_path):
        archive = make_tar(make_tree(tmp_path / "tree"), tmp_path / "dev.tar.gz")
        archive.write_bytes(archive.read_bytes()[:-20])
        with pytest.raises(TarError, match=r"dev\.tar\.gz: .*fetch it again"):
            content(archive)


class TestAudio:
    def test_round_trip(self):
        waveform = noise((1, 2, 3), 5000)
        data = flac(waveform)
        assert count_samples(data, source="a.flac", sample_rate=RATE) == 5000
        np.testing.assert_array_equal(decode(data, source="a.flac", sample_rate=RATE), waveform)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "no FLAC file"),
            (b"RIFF" + bytes(60), "no FLAC file"),
            (flac(noise((1, 2, 3), 900))[:41], "no FLAC file"),
            (flac(noise((1, 2, 3), 900), rate=8000), "8000 Hz, 1 channels, 16 bits; LibriSpeech"),
            (flac(np.zeros((900, 2), np.int16)), "16000 Hz, 2 channels"),
            (flac(np.zeros(900), subtype="PCM_24"), "24 bits"),
        ],
    )
    def test_another_kind_of_file_is_named(self, data, problem):
        for read in (count_samples, decode):
            with pytest.raises(AudioError, match=rf"a\.flac: .*{re.escape(problem)}"):
                read(data, source="a.flac", sample_rate=RATE)

    def test_damage_is_named_or_harmless(self):
        check_damage(flac(noise((1, 2, 3), 9000)))

    @needs_real_speech
    def test_damage_to_real_speech_is_named_or_harmless(self):
        check_damage(REAL_UTTERANCES[2].read_bytes())


def check_damage(whole: bytes) -> None:
    """Read 200 damaged variants: bits flipped in the header and behind, or the end cut off."""
    waveform = decode(whole, source="a.flac", sample_rate=RATE)
    random = np.random.default_rng(0)
    refused = 0
    for variant in range(200):
        data = bytearray(whole)
        if variant % 4 == 3:
            del data[int(random.integers(len(data))) :]
        else:
            place = random.integers(42) if variant % 4 == 0 else random.integers(len(data))
            data[int(place)] ^= 1 << int(random.integers(8))
        try:
            found = decode(bytes(data), source="a.flac", sample_rate=RATE)
        except UserError as error:
            refused += str(error).startswith("a.flac: ")
        else:  # what says nothing of the samples, such as the largest frame's size
            np.testing.assert_array_equal(found, waveform)
    assert refused > 100


@needs_real_speech
def test_real_subsets_are_whole():
    for subset, count, minutes in (("test-other", 80, 10.15), ("dev-clean", 2, 0.37)):
        found = list(utterances(REAL, subset))
        assert len(found) == count
        samples = [count_samples(u.load(), source=u.source, sample_rate=RATE) for u in found]
        assert sum(samples) / RATE / 60 == pytest.approx(minutes, abs=0.01)
    first = next(utterances(REAL, "test-other"))
    waveform = decode(first.load(), source=first.source, sample_rate=RATE)
    assert 100 < np.abs(waveform).max() <= 32767

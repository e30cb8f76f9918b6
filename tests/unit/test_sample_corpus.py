"""The sample corpus is complete, small and sound, and its alignments fit what was synthesised."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile as sf
from praatio import textgrid

RESOURCES = Path(__file__).resolve().parents[2] / "resources"
MAKE_SAMPLE = RESOURCES / "make_sample.py"
SAMPLE = RESOURCES / "sample"
CORPUS = SAMPLE / "LibriSpeech" / "sample"
RATE = 16_000
_VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
_CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
VOWELS, CONSONANTS = frozenset(_VOWELS.split()), frozenset(_CONSONANTS.split())


@dataclass(frozen=True)
class Phone:
    """An interval of the tier `phones`, in samples, and what sounds in it."""

    label: str
    start: int
    end: int
    samples: np.ndarray

    @property
    def name(self) -> str:
        return self.label.rstrip("012")

    @property
    def energy(self) -> float:
        """Mean square, in dB relative to full scale."""
        return 10 * np.log10(np.mean(self.samples**2))

    @property
    def crossings(self) -> float:
        """Changes of sign per sample."""
        return np.mean(np.diff(np.signbit(self.samples)))


def utterance_names() -> list[str]:
    return sorted(path.stem for path in CORPUS.rglob("*.flac"))


def folder_of(utterance: str) -> Path:
    speaker, chapter, _ = utterance.split("-")
    return Path(speaker, chapter)


def flac_of(utterance: str) -> Path:
    return CORPUS / folder_of(utterance) / f"{utterance}.flac"


def read_grid(utterance: str) -> textgrid.Textgrid:
    path = SAMPLE / "alignments" / folder_of(utterance) / f"{utterance}.TextGrid"
    return textgrid.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")


@cache
def read_phones(utterance: str) -> list[Phone]:
    samples, _ = sf.read(flac_of(utterance))
    phones = []
    for start, end, label in read_grid(utterance).getTier("phones").entries:
        first, last = round(start * RATE), round(end * RATE)
        phones.append(Phone(label, first, last, samples[first:last]))
    return phones


def transcripts() -> dict[str, str]:
    lines = [
        line
        for path in sorted(CORPUS.rglob("*.trans.txt"))
        for line in path.read_text(encoding="ascii").splitlines()
    ]
    return dict(line.split(" ", maxsplit=1) for line in lines)


def table_rows(name: str) -> list[list[str]]:
    """The fields of one of LibriSpeech's tables, comments left out."""
    lines = (SAMPLE / "LibriSpeech" / name).read_text(encoding="ascii").splitlines()
    return [
        [field.strip() for field in line.split("|")] for line in lines if not line.startswith(";")
    ]


def recorded_version(program: str) -> str:
    found = re.search(rf"^- {program} (\S+)", (SAMPLE / "README.md").read_text("utf-8"), re.M)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def phones() -> list[Phone]:
    return [phone for utterance in utterance_names() for phone in read_phones(utterance)]


@pytest.fixture(scope="module")
def make_sample() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", MAKE_SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_sample"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_utterance_has_audio_words_and_phones() -> None:
    names = utterance_names()
    assert len(names) >= 12
    assert names == sorted(transcripts())
    assert names == sorted(path.stem for path in SAMPLE.rglob("*.TextGrid"))
    expected = {flac_of(name) for name in names}
    for folder in {flac_of(name).parent for name in names}:
        expected.add(folder / f"{folder.parent.name}-{folder.name}.trans.txt")
    assert {path for path in CORPUS.rglob("*") if path.is_file()} == expected


def test_speakers_and_chapters_are_those_of_the_folders() -> None:
    speakers, chapters = table_rows("SPEAKERS.TXT"), table_rows("CHAPTERS.TXT")
    assert len(speakers) >= 5
    assert [row[0] for row in speakers] == sorted(path.name for path in CORPUS.iterdir())
    assert [(row[1], row[0]) for row in chapters] == sorted(
        (path.parent.name, path.name) for path in CORPUS.glob("*/*")
    )
    for speaker, sex, subset, minutes, name in speakers:
        seconds = sum(sf.info(path).duration for path in (CORPUS / speaker).rglob("*.flac"))
        assert (sex in {"F", "M"}, subset) == (True, "sample")
        assert float(minutes) == pytest.approx(seconds / 60, abs=0.006)  # two decimals
        assert re.fullmatch(r"espeak-ng \S+ \(synthesised\)", name)
        assert 2 <= len(list((CORPUS / speaker).rglob("*.flac"))) <= 3
    assert len({row[4] for row in speakers}) == len(speakers)


@pytest.mark.parametrize("utterance", utterance_names())
def test_audio_is_of_librispeechs_format_and_as_long_as_its_alignment(utterance: str) -> None:
    audio = sf.info(flac_of(utterance))
    assert (audio.format, audio.subtype) == ("FLAC", "PCM_16")
    assert (audio.samplerate, audio.channels) == (RATE, 1)
    assert 2.5 <= audio.duration <= 5
    assert read_grid(utterance).maxTimestamp * RATE == audio.frames


@pytest.mark.parametrize("utterance", utterance_names())
def test_tiers_are_contiguous_and_words_are_whole_phones(utterance: str) -> None:
    grid = read_grid(utterance)
    assert grid.tierNames == ("words", "phones")
    for name in grid.tierNames:
        entries = grid.getTier(name).entries
        assert (entries[0].start, entries[-1].end) == (0, grid.maxTimestamp)
        assert all(before.end == after.start for before, after in pairwise(entries))
    words, spoken = grid.getTier("words").entries, grid.getTier("phones").entries
    assert [word.label for word in words if word.label] == transcripts()[utterance].lower().split()
    assert {word.start for word in words} <= {phone.start for phone in spoken}
    silences = [(word.start, word.end) for word in words if not word.label]
    assert silences == [(phone.start, phone.end) for phone in spoken if phone.label == "sil"]


def test_corpus_is_below_one_megabyte() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 1_000_000


def test_all_phones_and_silence_occur_with_stress_on_vowels_alone(phones: list[Phone]) -> None:
    assert set(Counter(phone.name for phone in phones)) == VOWELS | CONSONANTS | {"sil"}
    for phone in phones:
        assert (phone.label[-1] in "012") == (phone.name in VOWELS)


def test_silences_are_far_weaker_than_vowels_and_not_digital_zero(phones: list[Phone]) -> None:
    silences = [phone for phone in phones if phone.label == "sil"]
    loudest = max(phone.energy for phone in silences)
    assert loudest < min(phone.energy for phone in phones if phone.name in VOWELS) - 20
    assert min(phone.energy for phone in silences) > -80


def test_sibilants_cross_zero_more_often_than_any_vowel(phones: list[Phone]) -> None:
    sibilants = [phone.crossings for phone in phones if phone.name in {"S", "SH"}]
    assert min(sibilants) > max(phone.crossings for phone in phones if phone.name in VOWELS)


def test_vowels_are_stronger_than_voiceless_neighbours() -> None:
    for utterance in utterance_names():
        for before, after in pairwise(read_phones(utterance)):
            for vowel, other in ((before, after), (after, before)):
                if vowel.name in VOWELS and other.name in {"P", "T", "K", "F", "TH", "HH"}:
                    assert vowel.energy > other.energy + 3, (utterance, vowel.label, other.label)


def test_speech_begins_and_ends_where_the_silences_end_and_begin() -> None:
    """The boundaries of silence, against the samples that stand out of the noise floor."""
    distances = []
    for utterance in utterance_names():
        samples, _ = sf.read(flac_of(utterance))
        spoken = read_phones(utterance)
        floor = np.sqrt(np.mean(spoken[0].samples ** 2))
        power = np.convolve(samples**2, np.ones(32) / 32, mode="same")  # over 2 ms
        loud = np.flatnonzero(power > (3 * floor) ** 2)
        for before, after in pairwise(spoken):
            if before.label == "sil":
                nearest = loud[loud > (before.start + before.end) // 2][0]
                distances.append(nearest - before.end)
            elif after.label == "sil":
                nearest = loud[loud < (after.start + after.end) // 2][-1]
                distances.append(nearest - after.start)
    milliseconds = np.abs(distances) * 1000 / RATE
    assert np.median(milliseconds) < 2  # the window of the power
    assert milliseconds.max() < 20  # nasals fade into the floor


def test_a_phoneme_without_a_phone_is_an_error_that_names_it(make_sample: ModuleType) -> None:
    with pytest.raises(make_sample.SampleError, match="'x~': no ARPAbet phone"):
        make_sample.arpabet("x~", 0, "British")


def test_the_tables_of_phones_hold_arpabet_alone(make_sample: ModuleType) -> None:
    values = [*make_sample.ARPABET.values()]
    values += [phone for table in make_sample.ACCENTS.values() for phone in table.values()]
    assert {phone for value in values for phone in value.split()} == VOWELS | CONSONANTS
    assert set(make_sample.ACCENTS) <= {speaker.accent for speaker in make_sample.SPEAKERS}


def test_the_same_versions_make_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, str(MAKE_SAMPLE), "--speaker", "9904", "--output", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if "install espeak-ng" in run.stderr:
        pytest.skip("the library of espeak-ng is not installed")
    assert run.returncode == 0, run.stderr
    version = run.stderr.split()[-1]
    for program, present in (("espeak-ng", version), ("libsndfile", sf.__libsndfile_version__)):
        if present != recorded_version(program):
            pytest.skip(f"{program} is {present}; {recorded_version(program)} made the sample")
    made = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(SAMPLE) for path in SAMPLE.rglob("9904-*")}
    assert set(made) == kept
    for name, path in made.items():
        assert path.read_bytes() == (SAMPLE / name).read_bytes(), name

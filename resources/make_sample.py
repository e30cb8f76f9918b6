"""Make the sample corpus: a few synthesised sentences in LibriSpeech's layout, with alignments.

espeak-ng speaks the sentences below through its C library, which also reports at which sample
every word and every phoneme begins. From these come the FLAC files, the transcripts and
MFA-style TextGrids. The same version of espeak-ng gives the same bytes: nothing is drawn at
random but the noise floor, whose generator is seeded by speaker and utterance.

Each speaker is made in a process of its own, because espeak-ng keeps state between voices.
"""

import argparse
import ctypes
import ctypes.util
import io
import logging
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile as sf
from scipy.signal import resample_poly

LOG = logging.getLogger("make_sample")
RATE = 16_000
ESPEAK_RATE = 22_050
UP, DOWN = 320, 441  # 22 050 Hz · 320 / 441 = 16 000 Hz
MARGIN = RATE // 4  # silence before and after the speech
PEAK_DBFS = -18.0
NOISE_DBFS = -72.0  # root mean square of the noise floor
SUBSET = "sample"


@dataclass(frozen=True)
class Speaker:
    """One voice, how it speaks and what it says; `rate` in words a minute, `pitch` 0 to 99."""

    id: int
    sex: str
    voice: str
    accent: str
    rate: int
    pitch: int
    sentences: tuple[str, ...]

    @property
    def chapter(self) -> int:
        return 400_000 + self.id


# Numbers above 9800 occur in no subset of LibriSpeech.
SPEAKERS = (
    Speaker(
        9901,
        "F",
        "en-us+f1",
        "General American",
        165,
        50,
        (
            "The young nurse poured warm water into a shallow basin.",
            "She usually measures the garage with a wooden ruler.",
            "A butterfly rests on our bottle, and the boys watch it.",
        ),
    ),
    Speaker(
        9902,
        "M",
        "en-us+m3",
        "General American",
        150,
        40,
        (
            "Our old piano makes a joyful noise every evening.",
            "Five children chased a yellow kite over the hedge.",
        ),
    ),
    Speaker(
        9903,
        "F",
        "en+linda",
        "British",
        155,
        60,
        (
            "Put the good sugar near that blue jug, please.",
            "I heard thunder, and then the birds grew quiet.",
        ),
    ),
    Speaker(
        9904,
        "M",
        "en-gb-x-rp+m4",
        "Received Pronunciation",
        170,
        30,
        (
            "They bathe both horses there each Thursday morning.",
            "This choice of colour gave the house a new charm.",
        ),
    ),
    Speaker(
        9905,
        "F",
        "en-gb-scotland+steph",
        "Scottish",
        145,
        45,
        (
            "A cheerful cook was rolling dough behind the counter.",
            "Snow fell by the quiet harbour, and nobody went home.",
        ),
    ),
    Speaker(
        9906,
        "M",
        "en-us-nyc+m1",
        "New York City",
        160,
        55,
        (
            "His vision is sharp, but he cannot judge a distance.",
            "Loud music shook the thick walls, yet we sang along.",
        ),
    ),
)

SILENCE = "sil"
STOPS = frozenset({"B", "D", "G", "K", "P", "T", "CH", "JH"})
VOWELS = frozenset(
    {"AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"}
)

# espeak-ng's mnemonics of its English voices, to ARPAbet. Two phones share their interval
# equally; an empty value (the glide that `;` inserts) leaves its time to the phone before.
ARPABET = {
    # consonants
    "b": "B", "d": "D", "f": "F", "g": "G", "h": "HH", "j": "Y", "k": "K", "m": "M",
    "n": "N", "N": "NG", "p": "P", "s": "S", "S": "SH", "t": "T", "T": "TH", "D": "DH",
    "v": "V", "w": "W", "z": "Z", "Z": "ZH", "tS": "CH", "dZ": "JH",
    "l": "L", "l/": "L", "l/2": "L", "r": "R", "r/": "R", "r-": "R",
    "t2": "T", "t#": "D",  # t# is the flap: voiced and short, as MFA's D
    ";": "",
    # short vowels and schwas
    "a": "AE", "a/": "AE", "a#": "AH", "@": "AH", "@2": "AH", "@5": "AH", "3": "AH",
    "E": "EH", "I": "IH", "I2": "IH", "I#": "IH", "i": "IY", "0": "AA", "O2": "AA",
    "V": "AH", "U": "UH",
    "@L": "AH L",
    # long vowels and diphthongs
    "A:": "AA", "O:": "AO", "O": "AO", "3:": "ER", "VR": "ER", "IR": "ER", "i:": "IY", "u:": "UW",
    "eI": "EY", "aI": "AY", "aI2": "AY", "OI": "OY", "aU": "AW", "oU": "OW",
    # vowels before a written r: the r is silent here, or a phoneme of its own follows
    "A@": "AA", "O@": "AO", "o@": "AO", "e@": "EH", "i@": "IH AH", "i@3": "IH AH",
    "U@": "UH AH", "aI@": "AY AH", "aI3": "AY AH", "aU@": "AW AH",
}  # fmt: skip
# Where an accent differs from that
ACCENTS = {
    # a vowel before a written r ends in it
    "General American": {
        "3": "ER", "A@": "AA R", "O@": "AO R", "o@": "AO R", "e@": "EH R", "i@": "IY AH",
        "i@3": "IH R", "U@": "UH R", "aI3": "AY ER", "aU@": "AW ER",
    },
    # an r follows as a phoneme of its own; `3` has the r's colour before a pause, as always here
    "Scottish": {"3": "ER", "i@3": "IH"},
}  # fmt: skip
STRESS = {"'": 1, ",": 2}


class SampleError(Exception):
    """What was wrong and what would be right, in one line."""


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)
SYNCHRONOUS, PHONEME_EVENTS, UTF8 = 2, 1, 1
EVENT_END_OF_LIST, EVENT_WORD, EVENT_PHONEME = 0, 1, 7
PARAMETER_RATE, PARAMETER_PITCH = 1, 3


def load_espeak() -> tuple[ctypes.CDLL, str]:
    """The library of espeak-ng, ready for phoneme events, and its version."""
    name = ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise SampleError(f"{name}: not found; install espeak-ng 1.51") from error
    library.espeak_Info.restype = library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    if library.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS) != ESPEAK_RATE:
        raise SampleError(f"{name}: found no voice data at {ESPEAK_RATE} Hz; install espeak-ng")
    return library, library.espeak_Info(None).decode().split()[0]


@dataclass(frozen=True)
class Event:
    """The beginning, in samples of espeak-ng, of a word or of a phoneme."""

    is_word: bool
    sample: int
    name: str  # the word as written, or the phoneme's mnemonic


def synthesise(library: ctypes.CDLL, text: str) -> tuple[np.ndarray, list[Event]]:
    """Samples (int16 at 22 050 Hz) and events of `text` in the library's present voice."""
    pieces, events = [], []

    @_Callback
    def collect(wave, count, batch):
        if wave and count:
            pieces.append(np.ctypeslib.as_array(wave, (count,)).copy())
        index = 0
        while batch[index].type != EVENT_END_OF_LIST:
            event = batch[index]
            if event.type == EVENT_WORD:
                start = event.text_position - 1  # counted from 1
                if event.length:  # an empty one may close a clause
                    events.append(Event(True, event.sample, text[start:][: event.length]))
            elif event.type == EVENT_PHONEME:
                events.append(Event(False, event.sample, event.id.string.decode()))
            index += 1
        return 0

    library.espeak_SetSynthCallback(collect)
    encoded = text.encode()
    library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, UTF8, None, None)
    return np.concatenate(pieces), events


def translated_stresses(library: ctypes.CDLL, text: str) -> list[tuple[str, int]]:
    """Mnemonic and stress (0, 1 or 2) of each phoneme of `text`; the events lack the stress."""
    buffer = ctypes.create_string_buffer(text.encode())
    rest = ctypes.c_void_p(ctypes.addressof(buffer))
    tokens = []
    while rest.value:  # one clause a call
        clause = library.espeak_TextToPhonemes(ctypes.byref(rest), UTF8, ord("|") << 8)
        tokens += re.split(r"[| ]+", clause.decode().strip())
    return [
        (token.lstrip("',%="), STRESS.get(token[:1], 0))
        for token in tokens
        if token and not token.startswith("_")
    ]


@dataclass
class Interval:
    """A label from `start` to `end`, in samples at 16 kHz; `word` counts the transcript's words."""

    start: int
    end: int
    label: str
    word: int | None = None

    def __len__(self) -> int:
        return self.end - self.start


def align(
    text: str, wave: np.ndarray, events: list[Event], stresses: list[tuple[str, int]], accent: str
) -> tuple[list[Interval], list[Interval]]:
    """Contiguous word and phone intervals of an utterance with its margins.

    A phone begins at its phoneme event and ends where the next one begins, except that

    - the closure of a stop, which espeak-ng renders as a pause before the event, is part of it;
    - an L or R after a vowel may lie wholly in the vowel's ending and get no time of its own: if
      fewer than 30 ms are left to it, it takes the last third of the two.

    A word begins with its first phone: the word event itself may precede the phone by a pause, or,
    after a nasal or a liquid, by that whole phone.
    """
    spoken = [event for event in events if not event.is_word and event.name[0] != "_"]
    if [event.name for event in spoken] != [name for name, _ in stresses]:
        raise SampleError(f"{text!r}: espeak-ng spoke other phonemes than it translated; reword")
    if [event.name for event in events if event.is_word] != re.findall(r"\w+", text):
        raise SampleError(f"{text!r}: espeak-ng joined words; reword the sentence")

    phones, word, stress = [Interval(0, 0, SILENCE)], -1, iter(stresses)
    for event in events:
        if event.is_word:
            word += 1
            continue
        start = MARGIN + round(event.sample * UP / DOWN)
        if event.name[0] == "_":
            labels, owner = [SILENCE], None
        else:
            labels, owner = arpabet(event.name, next(stress)[1], accent), word
        if not labels:
            continue
        if labels[0] in STOPS and phones[-1].word is not None:
            loud = np.flatnonzero(wave[: event.sample])
            start = MARGIN + round((loud[-1] + 1) * UP / DOWN)
        phones[-1].end = start
        if labels == [SILENCE] == [phones[-1].label]:
            continue  # espeak-ng writes a pause in two parts
        phones += [Interval(start, start, label, owner) for label in labels]
    phones[-1].end = MARGIN + round(len(wave) * UP / DOWN) + MARGIN
    share_time(phones)
    if any(len(phone) < RATE // 100 for phone in phones):
        raise SampleError(f"{text!r}: a phone is shorter than 10 ms; reword the sentence")

    words = re.findall(r"\w+", text.lower())
    spans = []
    for phone in phones:
        if spans and spans[-1].word == phone.word:
            spans[-1].end = phone.end
        else:
            label = "" if phone.word is None else words[phone.word]
            spans.append(Interval(phone.start, phone.end, label, phone.word))
    return spans, phones


def arpabet(mnemonic: str, stress: int, accent: str) -> list[str]:
    """The ARPAbet phones of one phoneme of espeak-ng; the first vowel carries the stress."""
    table = ARPABET | ACCENTS.get(accent, {})
    if mnemonic not in table:
        raise SampleError(f"{mnemonic!r}: no ARPAbet phone; add the mnemonic to ARPABET")
    labels = []
    for phone in table[mnemonic].split():
        labels.append(f"{phone}{stress}" if phone in VOWELS else phone)
        stress = 0 if phone in VOWELS else stress
    return labels


def share_time(phones: list[Interval]) -> None:
    """Move, in place, the boundaries that espeak-ng does not report (see `align`)."""
    for previous, phone in pairwise(phones):
        if previous.start == previous.end:  # the first of two phones of one phoneme
            previous.end = phone.start = (phone.start + phone.end) // 2
        elif (
            phone.label in ("L", "R")
            and previous.label.rstrip("012") in VOWELS
            and len(phone) < 0.03 * RATE
        ):
            previous.end = phone.start = phone.end - (phone.end - previous.start) // 3


def render(wave: np.ndarray, seed: tuple[int, int]) -> np.ndarray:
    """The int16 samples at 16 kHz: resampled, scaled to the peak, with margins and noise floor."""
    speech = np.pad(resample_poly(wave.astype(np.float64), UP, DOWN), MARGIN)
    speech *= 10 ** (PEAK_DBFS / 20) / np.abs(speech).max()
    noise = np.random.default_rng(seed).normal(scale=10 ** (NOISE_DBFS / 20), size=speech.size)
    return np.rint((speech + noise) * 2**15).astype(np.int16)


def text_grid(tiers: dict[str, list[Interval]], end: int) -> str:
    """A TextGrid in Praat's long format; times are exact multiples of a sample."""
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "xmin = 0",
        f"xmax = {end / RATE}",
        "tiers? <exists>",
        f"size = {len(tiers)}",
        "item []:",
    ]
    for number, (name, intervals) in enumerate(tiers.items(), 1):
        lines += [
            f"    item [{number}]:",
            '        class = "IntervalTier"',
            f'        name = "{name}"',
            "        xmin = 0",
            f"        xmax = {end / RATE}",
            f"        intervals: size = {len(intervals)}",
        ]
        for index, interval in enumerate(intervals, 1):
            lines += [
                f"        intervals [{index}]:",
                f"            xmin = {interval.start / RATE if interval.start else 0}",
                f"            xmax = {interval.end / RATE}",
                f'            text = "{interval.label}"',
            ]
    return "\n".join(lines) + "\n"


def write(path: Path, content: bytes | str) -> None:
    """Write a file under a temporary name, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)


def make_speaker(speaker: Speaker, output: Path) -> str:
    """The version of espeak-ng that made one speaker's audio, transcript and alignments."""
    library, version = load_espeak()
    if library.espeak_SetVoiceByName(speaker.voice.encode()) != 0:
        raise SampleError(f"{speaker.voice}: espeak-ng has no such voice; see espeak-ng --voices")
    library.espeak_SetParameter(PARAMETER_RATE, speaker.rate, 0)
    library.espeak_SetParameter(PARAMETER_PITCH, speaker.pitch, 0)
    folder = Path(str(speaker.id), str(speaker.chapter))
    transcript = []
    for number, text in enumerate(speaker.sentences):
        name = f"{speaker.id}-{speaker.chapter}-{number:04d}"
        wave, events = synthesise(library, text)
        samples = render(wave, (speaker.id, number))
        stresses = translated_stresses(library, text)
        words, phones = align(text, wave, events, stresses, speaker.accent)
        words[-1].end = phones[-1].end = samples.size
        flac = io.BytesIO()
        sf.write(flac, samples, RATE, format="FLAC", subtype="PCM_16", compression_level=1.0)
        grid = text_grid({"words": words, "phones": phones}, samples.size)
        write(output / "LibriSpeech" / SUBSET / folder / f"{name}.flac", flac.getvalue())
        write(output / "alignments" / folder / f"{name}.TextGrid", grid)
        transcript.append(" ".join([name, *re.findall(r"\w+", text.upper())]))
    path = output / "LibriSpeech" / SUBSET / folder / f"{speaker.id}-{speaker.chapter}.trans.txt"
    write(path, "\n".join(transcript) + "\n")
    return version


def speaker_seconds(speaker: Speaker, output: Path) -> float:
    """The duration of all utterances of a speaker."""
    folder = output / "LibriSpeech" / SUBSET / str(speaker.id) / str(speaker.chapter)
    return sum(sf.info(path).duration for path in sorted(folder.glob("*.flac")))


def write_tables(output: Path, version: str) -> None:
    """Write SPEAKERS.TXT, CHAPTERS.TXT and the README."""
    seconds = {speaker: speaker_seconds(speaker, output) for speaker in SPEAKERS}
    readers = [
        "; The speakers of the sample corpus, in the columns of LibriSpeech's SPEAKERS.TXT.",
        "; All of them are voices of espeak-ng: nobody was recorded for it.",
        ";",
        ";ID  |SEX| SUBSET           |MINUTES| NAME",
    ]
    chapters = [
        "; The chapters of the sample corpus, in the columns of LibriSpeech's CHAPTERS.TXT.",
        "; All of them were written for this corpus and synthesised: no book was read.",
        ";",
        ";ID    |READER|MINUTES| SUBSET           | PROJ.|BOOK ID| CH. TITLE | PROJECT TITLE",
    ]
    table = []
    for speaker, total in seconds.items():
        name = f"espeak-ng {speaker.voice} (synthesised)"
        minutes = f"{total / 60:.2f}"
        readers.append(f"{speaker.id:<4} | {speaker.sex} | {SUBSET:<16} | {minutes:<5} | {name}")
        chapters.append(
            f"{speaker.chapter:<6} | {speaker.id:<4} | {minutes:<5} | {SUBSET:<16} | 0    | 0     "
            "| Sample sentences | Sample corpus (synthesised)"
        )
        table.append(
            f"| {speaker.id} | {speaker.sex} | `{speaker.voice}` | {speaker.accent} "
            f"| {speaker.rate} | {speaker.pitch} | {len(speaker.sentences)} | {total:.1f} |"
        )
    write(output / "LibriSpeech" / "SPEAKERS.TXT", "\n".join(readers) + "\n")
    write(output / "LibriSpeech" / "CHAPTERS.TXT", "\n".join(chapters) + "\n")
    utterances = sum(len(speaker.sentences) for speaker in SPEAKERS)
    size = {
        kind: sum(path.stat().st_size for path in output.rglob(f"*.{kind}")) // 1000
        for kind in ("flac", "TextGrid")
    }
    readme = README.format(
        table="\n".join(table),
        utterances=utterances,
        speakers=len(SPEAKERS),
        seconds=sum(seconds.values()),
        flac=size["flac"],
        grids=size["TextGrid"],
        version=version,
        libsndfile=sf.__libsndfile_version__,
        noise=NOISE_DBFS,
        peak=PEAK_DBFS,
    )
    write(output / "README.md", readme)


README = """\
# A sample corpus of synthesised speech

{utterances} short English sentences in {speakers} voices, {seconds:.1f} s in all, laid out as
LibriSpeech lays out its audio and as the Montreal Forced Aligner (MFA) writes its alignments.
It serves demos and tests that must run without a download.

**Nobody was recorded for it.** Every voice is espeak-ng's: a rule-based formant synthesiser, far
more regular than people. Results on this corpus show that the code runs; they say nothing of
speech.

| file | content |
| --- | --- |
| `LibriSpeech/sample/<speaker>/<chapter>/*.flac` | audio: 16 kHz, mono, 16 bit ({flac} kB) |
| `LibriSpeech/sample/<speaker>/<chapter>/*.trans.txt` | one line an utterance: name and words |
| `LibriSpeech/SPEAKERS.TXT`, `CHAPTERS.TXT` | who speaks, and how long |
| `alignments/<speaker>/<chapter>/*.TextGrid` | tiers `words` and `phones` ({grids} kB) |

## Voices

| speaker | sex | voice | accent | rate (words/min) | pitch (0–99) | utterances | seconds |
| --- | --- | --- | --- | --- | --- | --- | --- |
{table}

No number of a speaker or chapter occurs in LibriSpeech. The sex is that of the voice's variant.

## Audio

espeak-ng's 22 050 Hz are resampled to 16 kHz and scaled to a peak of {peak:g} dBFS, with 0.25 s
of silence before and after. White Gaussian noise of {noise:g} dBFS (root mean square; its generator
is seeded by speaker and utterance) is added throughout, so that silence is not digital zero, whose
log-mel energies would be degenerate.

## Alignments

The boundaries are espeak-ng's own: where its synthesiser begins each phoneme, to the sample. Phones
are ARPAbet; vowels carry the stress as spoken (`AH0`, `IY1`), which for function words is often 0
where a dictionary has 1. Silence is `sil` in `phones` and empty in `words`. `spn` does not occur:
every word has phones. Four things are conventions, not events of the synthesiser:

- the closure of a stop, which espeak-ng renders as a pause, belongs to the stop; after a silence,
  where no one can tell the two apart, it belongs to the silence; a pause before another consonant,
  under 15 ms, stays with the phone before;
- one phoneme that stands for two phones (`@L` is `AH L`; General American `A@` is `AA R`; British
  `i@3` is `IH AH`) is cut in the middle;
- an `L` or `R` that espeak-ng renders as the ending of a vowel, leaving it fewer than 30 ms, takes
  the last third of the two;
- ARPAbet is American: British and Scottish vowels get the nearest symbol (the vowel of "not" is
  `AA`), a flap is `D`, and where an accent drops an r there is none.

## Origin and licence

The sentences were written for this corpus. Sentences, alignments and audio are dedicated to the
public domain under [CC0 1.0](https://creativecommons.org/publicdomain/zero/1.0/). espeak-ng itself,
free software under the GPL, version 3 or later, is not included, nor are its data files.

## How to make it again

`python resources/make_sample.py` needs NumPy, SciPy, soundfile and espeak-ng with its library
(`apt-get install espeak-ng`). The same versions give the same bytes; these files were made with

- espeak-ng {version}
- libsndfile {libsndfile} (the FLAC encoder's)
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parent / "sample",
        help="folder to write into (default: %(default)s)",
    )
    parser.add_argument(
        "--speaker",
        type=int,
        choices=[speaker.id for speaker in SPEAKERS],
        help="make this speaker's files alone, and no tables (default: everything)",
    )
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        if options.speaker is not None:
            chosen = next(speaker for speaker in SPEAKERS if speaker.id == options.speaker)
            version = make_speaker(chosen, options.output)
            LOG.info("speaker %d: %s, made with espeak-ng %s", chosen.id, chosen.voice, version)
            return 0
        _, version = load_espeak()
        for speaker in SPEAKERS:  # a process each: see the module's docstring
            command = [sys.executable, __file__, "--output", str(options.output)]
            if subprocess.run([*command, "--speaker", str(speaker.id)]).returncode:
                return 2
        write_tables(options.output, version)
    except SampleError as error:
        LOG.error("%s", error)
        return 2
    LOG.info("%s: made with espeak-ng %s", options.output, version)
    return 0


if __name__ == "__main__":
    sys.exit(main())

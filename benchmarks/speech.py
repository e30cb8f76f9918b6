"""Extraction of speech features, by threads, against the filterbank library alone.

The corpus is the sample in resources/, repeated under other speakers' numbers in one archive, so
that any machine has it.
"""

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import kaldi_native_fbank
import numpy as np
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.report import spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.data.speech.corpus import decode, utterances
from ntk_conditioning.data.speech.extraction import draw_frames, extract, survey
from ntk_conditioning.data.speech.features import FeatureSettings
from ntk_conditioning.seeds import generator

TITLE = "Speech features"
SAMPLE = Path(__file__).parents[1] / "resources" / "LibriSpeech"
COPIES = 80  # of the 38 s of the sample


def repeated_corpus(archive: Path, *, copies: int) -> None:
    """Write the sample corpus ``copies`` times, as one subset of more speakers."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for copy in range(copies):
            for utterance in utterances(SAMPLE, "train-clean-100"):
                speaker, content = utterance.speaker + 1000 * copy, utterance.load()
                name = f"{speaker}-{utterance.chapter}-{utterance.utterance:04d}.flac"
                member = tarfile.TarInfo(f"many/{speaker}/{utterance.chapter}/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def library_alone(waveforms: list[np.ndarray], settings: FeatureSettings) -> None:
    """Compute all filterbanks by the library itself, in one thread."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = settings.num_mel_bins
    for waveform in waveforms:
        computer = kaldi_native_fbank.OnlineFbank(options)
        computer.accept_waveform(settings.sample_rate, waveform)
        computer.input_finished()


def numbers_of_threads(settings: Settings) -> list[int]:
    """Return the powers of 2 up to the number of threads."""
    return [2**k for k in range(settings.threads.bit_length())]


def measure(settings: Settings) -> dict[str, Any]:
    """Return the seconds of the library, and of the whole extraction by threads."""
    features = FeatureSettings()
    copies = 1 if settings.quick else COPIES
    waveforms = [
        decode(u.load(), source=u.source, sample_rate=features.sample_rate).astype(np.float32)
        for u in utterances(SAMPLE, "train-clean-100")
    ] * copies
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "many.tar.gz"
        repeated_corpus(archive, copies=copies)
        available = survey(archive, "many", features).frames
        drawn = draw_frames(available, len(available), generator=generator(0, "data"))
        methods = {"library": stopwatch(lambda: library_alone(waveforms, features))}
        for threads in numbers_of_threads(settings):
            methods[str(threads)] = stopwatch(
                lambda threads=threads: extract(archive, "many", features, drawn, threads=threads)
            )
        for timed in methods.values():
            timed()
        seconds = interleaved(methods, rounds=settings.rounds)
    return {
        "machine": machine.facts(settings.threads),
        "targets": [],
        "audio_seconds": sum(map(len, waveforms)) / features.sample_rate,
        "seconds": seconds,
        "rate_over_library": {
            name: ratio(seconds["library"], taken) for name, taken in seconds.items()
        },
    }


def label(name: str) -> str:
    """Return what a row of the table is."""
    if name == "library":
        return "kaldi-native-fbank alone, 1 thread, decoded waveforms"
    return f"the whole extraction, {name} thread{'s' if name != '1' else ''}"


def times_real_time(result: dict[str, Any], name: str) -> dict[str, float]:
    """Return the seconds of audio for each second of a method."""
    return spread(result["audio_seconds"] / seconds for seconds in result["seconds"][name])


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    lines = [
        machine.sentence(result["machine"], None),
        "",
        f"{result['audio_seconds'] / 60:.0f} minutes of 16 kHz FLAC in one tar.gz, to normalised "
        "and stacked vectors;",
        "multiples of real time.",
        "",
        *table(
            ("", "times real time", "of the library's"),
            [
                (
                    label(name),
                    spread_text(times_real_time(result, name), 4),
                    spread_text(result["rate_over_library"][name]),
                )
                for name in result["seconds"]
            ],
        ),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return the multiples of real time as bars."""
    names = list(result["seconds"])
    drawn, (ax,) = figures.canvas(height=1.5)
    rates = [times_real_time(result, name) for name in names]
    middles = [rate["median"] for rate in rates]
    errors = [
        [rate["median"] - rate["min"] for rate in rates],
        [rate["max"] - rate["median"] for rate in rates],
    ]
    colors = ["#8a8a8a" if name == "library" else figures.OURS for name in names]
    ax.barh(
        range(len(names)),
        middles,
        xerr=errors,
        color=colors,
        height=0.55,
        error_kw={"linewidth": 0.8},
    )
    ax.set_yticks(range(len(names)), [label(name).replace(", ", ",\n", 1) for name in names])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("times real time")
    return drawn

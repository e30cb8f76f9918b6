"""Measure the extraction of speech features, by threads, against the filterbank library alone.

The corpus is the sample in resources/, repeated under other speakers' numbers in one archive, so
that any machine has it. Writes benchmarks/results/speech.json and a table in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import kaldi_native_fbank
import numpy as np

from ntk_conditioning.seeds import generator
from ntk_conditioning.speech.corpus import decode, utterances
from ntk_conditioning.speech.draw import draw_frames
from ntk_conditioning.speech.extraction import extract, survey
from ntk_conditioning.speech.features import FeatureSettings

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "resources" / "sample"
MARK = "<!-- speech: written by python -m benchmarks.speech -->\n"
END = "<!-- end of speech -->\n"
log = logging.getLogger("benchmarks.speech")


def repeated_corpus(archive: Path, *, copies: int) -> None:
    """Write the sample corpus ``copies`` times, as one subset of more speakers."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for copy in range(copies):
            for utterance in utterances(SAMPLE, "sample"):
                speaker, content = utterance.speaker + 1000 * copy, utterance.load()
                name = f"{speaker}-{utterance.chapter}-{utterance.utterance:04d}.flac"
                member = tarfile.TarInfo(f"many/{speaker}/{utterance.chapter}/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def library_alone(waveforms: list[np.ndarray], settings: FeatureSettings) -> float:
    """Return the seconds that the library itself takes for all filterbanks, in one thread."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = settings.num_mel_bins
    start = time.perf_counter()
    for waveform in waveforms:
        computer = kaldi_native_fbank.OnlineFbank(options)
        computer.accept_waveform(settings.sample_rate, waveform)
        computer.input_finished()
    return time.perf_counter() - start


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Return multiples of real time: of the library, and of the whole extraction by threads."""
    settings = FeatureSettings()
    waveforms = [
        decode(u.load(), source=u.source, sample_rate=settings.sample_rate).astype(np.float32)
        for u in utterances(SAMPLE, "sample")
    ] * args.copies
    seconds = sum(map(len, waveforms)) / settings.sample_rate
    rates: dict[str, list[float]] = {"library": []}
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "many.tar.gz"
        repeated_corpus(archive, copies=args.copies)
        available = survey(archive, "many", settings).frames
        drawn = draw_frames(available, len(available), generator=generator(0, "data"))
        for _ in range(args.repeats):
            rates["library"].append(seconds / library_alone(waveforms, settings))
            for threads in args.threads:
                start = time.perf_counter()
                extract(archive, "many", settings, drawn, threads=threads)
                taken = time.perf_counter() - start
                rates.setdefault(str(threads), []).append(seconds / taken)
            log.info({name: round(values[-1]) for name, values in rates.items()})
    return {"minutes": seconds / 60, "times_real_time": rates}


def markdown(result: dict[str, Any]) -> str:
    """Return the table of benchmarks/README.md."""
    rates = result["times_real_time"]
    library = statistics.median(rates["library"])
    lines = [
        f"{result['minutes']:.0f} minutes of 16 kHz FLAC in one tar.gz, to normalised and stacked "
        "vectors; multiples of real time.",
        "",
        "| | times real time: median (min … max) | of the library's |",
        "| --- | --- | --- |",
    ]
    for name, values in rates.items():
        label = "kaldi-native-fbank alone, 1 thread, decoded waveforms"
        label = label if name == "library" else f"the whole extraction, {name} threads"
        middle = statistics.median(values)
        lines.append(
            f"| {label} | {middle:.0f} ({min(values):.0f} … {max(values):.0f}) "
            f"| {middle / library:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speech", description=__doc__)
    parser.add_argument("--copies", type=int, default=80, help="copies of the 45 s of the sample")
    parser.add_argument("--repeats", type=int, default=5)
    cores = os.cpu_count() or 1
    powers = [2**k for k in range(cores.bit_length()) if 2**k <= cores]
    parser.add_argument("--threads", type=int, nargs="+", default=powers)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

    result = measure(args)
    table = markdown(result)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "speech.json").write_text(json.dumps(result, indent=2) + "\n")
    readme = HERE / "README.md"
    head, mark, rest = readme.read_text(encoding="utf-8").partition(MARK)
    tail = rest.partition(END)[2]
    readme.write_text(f"{head}{mark}\n{table}\n{END}{tail}", encoding="utf-8")
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

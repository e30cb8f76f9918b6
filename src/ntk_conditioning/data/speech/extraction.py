"""From a corpus to the vectors and labels of drawn frames, on all processors, in little memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.speech.alignments import PHONES, Alignment, read_textgrid
from ntk_conditioning.data.speech.corpus import Utterance, count_samples, decode, utterances
from ntk_conditioning.data.speech.features import FeatureSettings, frame_count, vectors
from ntk_conditioning.errors import UserError

Alignments = Mapping[str, Alignment | Path]
Progress = Callable[[Iterable[Utterance]], Iterable[Utterance]]


@dataclass(frozen=True)
class Survey:
    """What a corpus has: frames by utterance, and the seconds of all its audio.

    ``short`` counts the utterances without a whole frame, ``unaligned`` those without an alignment.
    """

    frames: Mapping[Utterance, int]
    seconds: float
    short: int
    unaligned: int


@dataclass(frozen=True)
class Frames:
    """Vectors (n, d) in single precision and labels (n,); ``names`` says what these mean.

    ``index`` (n, 4) has the numbers of speaker, chapter, utterance and frame, in ascending order.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    index: NDArray[np.int64]
    names: tuple[str, ...]
    seconds: float


def survey(
    source: Path,
    subset: str,
    settings: FeatureSettings,
    *,
    alignments: Alignments | None = None,
    progress: Progress = iter,
) -> Survey:
    """Return what a subset has, from the headers of its files.

    Raises `FormatError` or `ContentError` if it cannot be read, or no utterance can be used.
    """
    frames: dict[Utterance, int] = {}
    samples = short = unaligned = 0
    for utterance in progress(utterances(source, subset)):
        rate, place = settings.sample_rate, utterance.source
        length = count_samples(utterance.head(), source=place, sample_rate=rate)
        samples += length
        if alignments is not None and utterance.name not in alignments:
            unaligned += 1
        elif count := frame_count(length, settings):
            frames[utterance] = count
        else:
            short += 1
    if not frames:
        reason = f"{short} are shorter than a frame, {unaligned} have no alignment"
        raise ContentError(f"{source}: no utterance of {subset} can be used; {reason}")
    return Survey(frames, samples / settings.sample_rate, short, unaligned)


def extract(
    source: Path,
    subset: str,
    settings: FeatureSettings,
    drawn: Mapping[Utterance, NDArray[np.int64]],
    *,
    alignments: Alignments | None = None,
    threads: int = 1,
    progress: Progress = iter,
) -> Frames:
    """Return the vectors of the drawn frames, labelled by phone, or without alignments by speaker.

    The order and the bytes do not depend on ``threads``. Beside the result only a few utterances
    are in memory.

    Raises `FormatError` or `ContentError` if corpus or alignments cannot be read or do not fit, and
    `UserError` if the result is larger than the machine's memory.
    """
    order = sorted(drawn)
    ends = np.cumsum([len(drawn[utterance]) for utterance in order])
    last_row = dict(zip(order, ends.tolist(), strict=True))
    n = int(ends[-1])
    needed = 4 * n * settings.dimension
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise UserError(
            f"{n} vectors of {settings.dimension} numbers are {needed / 1e9:.0f} GB, more than the "
            f"{memory / 1e9:.0f} GB of memory; lower speech.frames"
        )
    x = np.empty((n, settings.dimension), dtype=np.float32)
    y = np.empty(n, dtype=np.int64)
    index = np.empty((n, 4), dtype=np.int64)
    speakers = {number: k for k, number in enumerate(sorted({u.speaker for u in order}))}

    def fill(utterance: Utterance, flac: bytes) -> int:
        frames = drawn[utterance]
        waveform = decode(flac, source=utterance.source, sample_rate=settings.sample_rate)
        rows = slice(last_row[utterance] - len(frames), last_row[utterance])
        x[rows] = vectors(waveform, frames, settings)
        if alignments is None:
            y[rows] = speakers[utterance.speaker]
        else:
            positions, rate = settings.label_positions(frames), settings.sample_rate
            alignment = alignments[utterance.name]
            if isinstance(alignment, Path):
                alignment = read_textgrid(alignment)
            y[rows] = alignment.labels(positions, sample_rate=rate, tolerance=settings.length)
        index[rows, :3] = (utterance.speaker, utterance.chapter, utterance.utterance)
        index[rows, 3] = frames
        return len(waveform)

    jobs = ((u, u.load()) for u in progress(utterances(source, subset)) if u in drawn)
    samples = sum(_in_threads(fill, jobs, threads))
    names = tuple(map(str, speakers)) if alignments is None else PHONES
    return Frames(x, y, index, names, samples / settings.sample_rate)


def _in_threads(
    fill: Callable[[Utterance, bytes], int], jobs: Iterable[tuple[Utterance, bytes]], threads: int
) -> Iterator[int]:
    """Yield results in order; no more than two jobs for each thread are waiting.

    Threads are enough: decoding, filterbank and decompression run outside the interpreter's lock.
    """
    waiting: deque[Future[int]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(fill, *job))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

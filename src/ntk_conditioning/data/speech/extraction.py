"""From a corpus to the vectors and labels of drawn frames, on all processors, in little memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.speech.alignments import PHONES, Alignments
from ntk_conditioning.data.speech.corpus import Utterance, count_samples, decode, utterances
from ntk_conditioning.data.speech.features import FeatureSettings, frame_count, vectors
from ntk_conditioning.errors import UserError

_R = TypeVar("_R")
Progress = Callable[[Iterable[Utterance]], Iterable[Utterance]]


class NothingToDrawError(UserError):
    """No utterance of a corpus has a frame that can be labelled."""


class TooManyFramesError(UserError):
    """The vectors of the frames do not fit into memory."""


@dataclass(frozen=True)
class Survey:
    """What a corpus has: frames by utterance, and what is left out of it.

    ``seconds`` is the length of all its audio, ``short`` counts the utterances without a whole
    frame, ``unaligned`` those without an alignment.
    """

    frames: Mapping[Utterance, int]
    seconds: float
    short: int
    unaligned: int


@dataclass(frozen=True)
class Frames:
    """Vectors (n, d) in single precision and labels (n,), with the place of each in the corpus.

    ``index`` (n, 4) has the numbers of speaker, chapter, utterance and frame, in which the rows
    are ordered; ``names`` says what the labels 0, 1, … mean.
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

    Raises:
        CorpusError, TarError, AudioError: if it cannot be read, see `corpus`.
        NothingToDrawError: if no utterance can be used.
    """
    frames: dict[Utterance, int] = {}
    samples = short = unaligned = 0
    for utterance in progress(utterances(source, subset)):
        length = count_samples(
            utterance.head(), source=utterance.source, sample_rate=settings.sample_rate
        )
        samples += length
        if alignments is not None and utterance.name not in alignments:
            unaligned += 1
        elif count := frame_count(length, settings):
            frames[utterance] = count
        else:
            short += 1
    if not frames:
        reason = f"{short} are shorter than a frame, {unaligned} have no alignment"
        raise NothingToDrawError(f"{source}: no utterance of {subset} can be used; {reason}")
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

    Raises:
        CorpusError, TarError, AudioError: if the corpus cannot be read, see `corpus`.
        AlignmentError: if an alignment cannot be read or does not fit its utterance.
        TooManyFramesError: if the result is larger than the machine's memory.
    """
    order = sorted(drawn)
    starts = dict(zip(order, np.cumsum([0] + [len(drawn[u]) for u in order[:-1]]), strict=True))
    n = sum(len(frames) for frames in drawn.values())
    _require_memory(n, settings.dimension)
    x = np.empty((n, settings.dimension), dtype=np.float32)
    y = np.empty(n, dtype=np.int64)
    index = np.empty((n, 4), dtype=np.int64)
    speakers = {number: k for k, number in enumerate(sorted({u.speaker for u in order}))}

    def fill(utterance: Utterance, flac: bytes) -> int:
        frames = drawn[utterance]
        waveform = decode(flac, source=utterance.source, sample_rate=settings.sample_rate)
        rows = slice(int(starts[utterance]), int(starts[utterance]) + len(frames))
        x[rows] = vectors(waveform, frames, settings)
        if alignments is None:
            y[rows] = speakers[utterance.speaker]
        else:
            y[rows] = alignments[utterance.name].labels(
                settings.label_positions(frames),
                sample_rate=settings.sample_rate,
                tolerance=settings.length,
            )
        index[rows, :3] = (utterance.speaker, utterance.chapter, utterance.utterance)
        index[rows, 3] = frames
        return len(waveform)

    chosen = (u for u in progress(utterances(source, subset)) if u in drawn)
    jobs = ((u, u.load()) for u in chosen)
    samples = sum(_in_threads(fill, jobs, threads=threads))
    names = tuple(map(str, speakers)) if alignments is None else PHONES
    return Frames(x, y, index, names, samples / settings.sample_rate)


def _require_memory(n: int, dimension: int) -> None:
    needed = 4 * n * dimension
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise TooManyFramesError(
            f"{n} vectors of {dimension} numbers are {needed / 1e9:.0f} GB, more than the "
            f"{memory / 1e9:.0f} GB of memory; lower speech.frames"
        )


def _in_threads(
    work: Callable[..., _R], jobs: Iterable[tuple[Any, ...]], *, threads: int
) -> Iterator[_R]:
    """Yield results in order; no more than two jobs for each thread are waiting.

    Threads are enough: decoding, filterbank and decompression run outside the interpreter's lock.
    """
    waiting: deque[Future[_R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(work, *job))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

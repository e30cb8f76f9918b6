"""From a corpus to vectors and labels of frames, drawn without replacement from all speakers."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.speech.alignments import PHONES, phone_labels
from ntk_conditioning.data.speech.corpus import Utterance, count_samples, decode, utterances
from ntk_conditioning.data.speech.features import FeatureSettings, frame_count, vectors
from ntk_conditioning.errors import UserError

Alignments = Mapping[str, Path]
Progress = Callable[[Iterable[tuple[Utterance, bytes]]], Iterable[tuple[Utterance, bytes]]]


def survey(
    source: Path,
    subset: str,
    settings: FeatureSettings,
    *,
    alignments: Alignments | None = None,
    progress: Progress = iter,
) -> tuple[dict[Utterance, int], int, int]:
    """Return how many frames each utterance of a subset has, from the headers of its files.

    The two counts beside it are of utterances without a whole frame, and without an alignment.

    Raises `FormatError` or `ContentError` if it cannot be read, or no utterance can be used.
    """
    frames: dict[Utterance, int] = {}
    short = unaligned = 0
    for utterance, flac in progress(utterances(source, subset)):
        length = count_samples(flac, source=utterance.source, sample_rate=settings.sample_rate)
        if alignments is not None and utterance.name not in alignments:
            unaligned += 1
        elif count := frame_count(length, settings):
            frames[utterance] = count
        else:
            short += 1
    if not frames:
        reason = f"{short} are shorter than a frame, {unaligned} have no alignment"
        raise ContentError(f"{source}: no utterance of {subset} can be used; {reason}")
    return frames, short, unaligned


def draw_frames(
    available: Mapping[Utterance, int], n: int, *, generator: np.random.Generator
) -> dict[Utterance, NDArray[np.int64]]:
    """Return ``n`` frame numbers, ascending, by utterance; utterances without any are left out.

    ``available`` says how many frames each utterance has. Shares of speakers are those of
    `equal_shares`; each frame of a speaker is equally likely, in whatever order the corpus was
    read. Raises `UserError` if ``n`` is more than all frames.
    """
    speakers = [list(group) for _, group in groupby(sorted(available), lambda u: u.speaker)]
    ends = [np.cumsum([available[utterance] for utterance in group]) for group in speakers]
    shares = equal_shares([int(end[-1]) for end in ends], n, generator=generator)
    drawn: dict[Utterance, NDArray[np.int64]] = {}
    for group, end, share in zip(speakers, ends, shares, strict=True):
        chosen = np.sort(generator.choice(int(end[-1]), size=share, replace=False))
        owner = np.searchsorted(end, chosen, side="right")
        for k in np.unique(owner):
            drawn[group[k]] = chosen[owner == k] - (end[k] - available[group[k]])
    return drawn


def equal_shares(available: Sequence[int], n: int, *, generator: np.random.Generator) -> list[int]:
    """Return how many of ``n`` each owner gives: equally many, but none more than he has.

    >>> equal_shares([2, 100, 100], 20, generator=np.random.default_rng(0))
    [2, 9, 9]
    """
    have = np.asarray(available, dtype=np.int64)
    if n > have.sum():
        raise UserError(
            f"{n} frames asked for, but the corpus has {have.sum()}; lower speech.frames"
        )
    shares = np.zeros_like(have)
    while (left := n - int(shares.sum())) > 0:
        open_ = np.flatnonzero(shares < have)
        if left < len(open_):
            shares[generator.choice(open_, size=left, replace=False)] += 1
        else:
            shares[open_] += np.minimum(left // len(open_), have[open_] - shares[open_])
    return [int(share) for share in shares]


def extract(
    source: Path,
    subset: str,
    settings: FeatureSettings,
    drawn: Mapping[Utterance, NDArray[np.int64]],
    *,
    alignments: Alignments | None = None,
    threads: int = 1,
    progress: Progress = iter,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Return the drawn frames: vectors (n, d), labels (n,), an index (n, 4), and names of labels.

    Labels are phones, or without alignments speakers. The index has the numbers of speaker,
    chapter, utterance and frame, in ascending order.

    Raises `FormatError` or `ContentError` if corpus or alignments cannot be read or do not fit, and
    `NotEnoughMemoryError` if the result does not fit into the memory that is available.
    """
    n, rate = sum(map(len, drawn.values())), settings.sample_rate
    memory.require(8 * n * settings.dimension, f"a matrix {n} × {settings.dimension}")
    speakers = {number: k for k, number in enumerate(sorted({u.speaker for u in drawn}))}
    parts: dict[Utterance, tuple[NDArray[Any], ...]] = {}

    def fill(utterance: Utterance, flac: bytes) -> None:
        frames = drawn[utterance]
        waveform = decode(flac, source=utterance.source, sample_rate=rate)
        if alignments is None:
            labels = np.full(len(frames), speakers[utterance.speaker])
        else:
            path, positions = alignments[utterance.name], settings.label_positions(frames)
            labels = phone_labels(path, positions, sample_rate=rate, tolerance=settings.length)
        numbers = utterance.speaker, utterance.chapter, utterance.utterance
        index = np.column_stack([np.tile(numbers, (len(frames), 1)), frames])
        parts[utterance] = vectors(waveform, frames, settings), labels, index

    # Decoding, filterbank and decompression run outside the interpreter's lock.
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for utterance, flac in progress(utterances(source, subset)):
            if utterance in drawn:
                waiting.append(pool.submit(fill, utterance, flac))
            if len(waiting) >= 2 * threads:  # no more than these are in memory
                waiting.popleft().result()
        for future in waiting:
            future.result()
    names = tuple(map(str, speakers)) if alignments is None else PHONES
    ordered = [parts[utterance] for utterance in sorted(drawn)]
    x, y, index = (np.concatenate(arrays) for arrays in zip(*ordered, strict=True))
    return x, y, index, names

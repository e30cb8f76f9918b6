"""A LibriSpeech subset, read from its official tar.gz as it is, or from an unpacked tree."""

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from ntk_conditioning.data.archives import (
    ContentError,
    FormatError,
    reading,
    require_unpackable,
    tar_files,
)

# Speaker, chapter, name and number, all numbers of an int64.
_FLAC = re.compile(r"(?:.*/)?(\d{1,18})/(\d{1,18})/(\1-\2-(\d{1,18}))\.flac")


@dataclass(frozen=True, order=True)
class Utterance:
    """A recording of one speaker; the order is that of the numbers."""

    speaker: int
    chapter: int
    utterance: int
    name: str = field(compare=False)
    source: str = field(compare=False, repr=False)


def utterances(source: Path, subset: str) -> Iterator[tuple[Utterance, bytes]]:
    """Yield the utterances of a subset with the content of their files.

    ``source`` is the subset's archive or folder, ``LibriSpeech``, or the folder that holds it.

    Raises `ContentError` if the subset has no utterance, or a file stands in the folder of another
    speaker or chapter, and `FormatError` if the archive is damaged.
    """
    path = ""
    for path, content in _recordings(source, subset):
        if (match := _FLAC.fullmatch(path)) is None:
            raise ContentError(
                f"{source}: {path} is not <speaker>/<chapter>/<speaker>-<chapter>-<utterance>.flac"
            )
        speaker, chapter, name, number = match.groups()
        yield Utterance(int(speaker), int(chapter), int(number), name, f"{source}: {path}"), content
    if not path:
        raise ContentError(f"{source} has no utterance of {subset}, no {subset}/*/*/*.flac")


def count_samples(flac: bytes, *, source: str, sample_rate: int) -> int:
    """Return how many samples a FLAC file has, from its header.

    Raises `FormatError` if it is no FLAC file, or not of one channel, 16 bits and ``sample_rate``.
    """
    with reading(source, "FLAC"):
        info = soundfile.info(io.BytesIO(flac))
    kind = (info.format, info.samplerate, info.channels, info.subtype)
    if kind != ("FLAC", sample_rate, 1, "PCM_16"):
        raise FormatError(
            f"{source}: {info.format}, {info.samplerate} Hz, {info.channels} channels, "
            f"{info.subtype}; LibriSpeech has FLAC, {sample_rate} Hz, 1 channel, PCM_16"
        )
    return int(info.frames)


def decode(flac: bytes, *, source: str, sample_rate: int) -> NDArray[np.int16]:
    """Return the waveform (n,) of a FLAC file.

    Raises `FormatError` as `count_samples`, or if its samples are not those of the header's MD5.
    """
    samples = count_samples(flac, source=source, sample_rate=sample_rate)
    require_unpackable(source, 2 * samples, packed=len(flac))
    with reading(source, "FLAC"):
        waveform: NDArray[np.int16] = soundfile.read(io.BytesIO(flac), dtype="int16")[0]
    md5 = hashlib.md5(waveform.astype("<i2").tobytes(), usedforsecurity=False).digest()
    # the header (RFC 9639, section 8.2) has 16 zeros where it does not know the MD5
    if len(waveform) != samples or flac[26:42] not in (md5, bytes(16)):
        raise FormatError(
            f"{source}: its {len(waveform)} samples are not the {samples} of the header's MD5; "
            "fetch it again"
        )
    return waveform


def _recordings(source: Path, subset: str) -> Iterator[tuple[str, bytes]]:
    if not source.is_dir():
        known = re.compile(rf"(.*/)?{re.escape(subset)}/(.*/)?[^/]+/[^/]+/[^/]+\.flac")
        return tar_files(source, lambda name: known.fullmatch(name) is not None)
    itself = [source] if source.name == subset else []
    folders = [source / subset, source / "LibriSpeech" / subset, *itself]
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None:
        raise ContentError(
            f"{source} has no folder {subset} and no LibriSpeech/{subset}; unpack the archive "
            "there, or name it as the path"
        )
    paths = sorted(folder.rglob("*.flac"))
    return ((path.relative_to(source).as_posix(), path.read_bytes()) for path in paths)

"""A LibriSpeech subset, read from its official tar.gz as it is, or from an unpacked tree."""

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

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

_HEADER = 42  # bytes of a FLAC file up to the end of its first metadata block
_FLAC = re.compile(r"(\d{1,18})-(\d{1,18})-(\d{1,18})\.flac")  # numbers of an int64


@dataclass(frozen=True, order=True)
class Utterance:
    """A recording of one speaker; the order is that of the numbers. ``load`` returns its file."""

    speaker: int
    chapter: int
    utterance: int
    name: str = field(compare=False)
    source: str = field(compare=False, repr=False)
    load: Callable[[], bytes] = field(compare=False, repr=False)


def utterances(source: Path, subset: str) -> Iterator[Utterance]:
    """Yield the utterances of a subset, in the archive's order or in that of the file names.

    ``source`` is the subset's archive, or a folder: the subset's own, ``LibriSpeech``, or the one
    that holds it. Transcripts are not needed.

    Raises `ContentError` if the subset has no utterance, or a file stands in the folder of another
    speaker or chapter, and `FormatError` if the archive is damaged.
    """
    path = None
    for path, load in (_in_folder if source.is_dir() else _in_archive)(source, subset):
        shown, match = f"{source}: {path}", _FLAC.fullmatch(path.name)
        if match is None or path.parts[-3:-1] != match.groups()[:2]:
            raise ContentError(
                f"{shown} is not <speaker>/<chapter>/<speaker>-<chapter>-<utterance>.flac"
            )
        speaker, chapter, number = map(int, match.groups())
        yield Utterance(speaker, chapter, number, path.stem, shown, load)
    if path is None:
        raise ContentError(f"{source} has no utterance of {subset}, no {subset}/*/*/*.flac")


def count_samples(flac: bytes, *, source: str, sample_rate: int) -> int:
    """Return how many samples a FLAC file has, from its header.

    Raises `FormatError` if it is no FLAC file, or not of one channel, 16 bits and ``sample_rate``.
    """
    # The first metadata block (RFC 9639, section 8.2), 34 bytes from byte 8.
    if len(flac) < _HEADER or flac[:4] != b"fLaC" or flac[4] & 0x7F or flac[5:8] != b"\0\0\x22":
        raise FormatError(f"{source}: no FLAC file, it does not start with fLaC and its header")
    header = int.from_bytes(flac[18:26], "big")  # rate 20, channels 3, bits 5, samples 36
    rate, channels, bits = header >> 44, (header >> 41 & 0x7) + 1, (header >> 36 & 0x1F) + 1
    if (rate, channels, bits) != (sample_rate, 1, 16):
        raise FormatError(
            f"{source}: {rate} Hz, {channels} channels, {bits} bits; LibriSpeech has "
            f"{sample_rate} Hz, 1 channel, 16 bits"
        )
    return header & 0xFFFFFFFFF


def decode(flac: bytes, *, source: str, sample_rate: int) -> NDArray[np.int16]:
    """Return the waveform (n,) of a FLAC file.

    Raises `FormatError` as `count_samples`, or if its samples are not those of the header's MD5.
    """
    samples = count_samples(flac, source=source, sample_rate=sample_rate)
    require_unpackable(source, 2 * samples, packed=len(flac))
    with reading(source, "FLAC"):
        waveform: NDArray[np.int16] = soundfile.read(io.BytesIO(flac), dtype="int16")[0]
    md5 = hashlib.md5(waveform.astype("<i2").tobytes(), usedforsecurity=False).digest()
    unknown = flac[26:42] == bytes(16)
    if len(waveform) != samples or not (unknown or flac[26:42] == md5):
        raise FormatError(
            f"{source}: its {len(waveform)} samples are not the {samples} of the header's MD5; "
            "fetch it again"
        )
    return waveform


_Files = Iterator[tuple[PurePosixPath, Callable[[], bytes]]]


def _in_archive(source: Path, subset: str) -> _Files:
    def wanted(name: str) -> bool:
        path = PurePosixPath(name)
        return path.suffix == ".flac" and subset in path.parts[:-3]

    for name, content in tar_files(source, wanted):
        yield PurePosixPath(name), partial(bytes, content)


def _in_folder(source: Path, subset: str) -> _Files:
    itself = [source] if source.name == subset else []
    folders = [source / subset, source / "LibriSpeech" / subset, *itself]
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None:
        raise ContentError(
            f"{source} has no folder {subset} and no LibriSpeech/{subset}; unpack the archive "
            "there, or name it as the path"
        )
    for path in sorted(folder.rglob("*.flac")):
        yield PurePosixPath(path.relative_to(source).as_posix()), path.read_bytes

"""A LibriSpeech subset, read from its official tar.gz as it is, or from an unpacked tree."""

from __future__ import annotations

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

from ntk_conditioning.data.archives import FormatError
from ntk_conditioning.data.tars import tar_members
from ntk_conditioning.errors import UserError, one_line

_HEADER = 42  # bytes of a FLAC file up to the end of its first metadata block
_FLAC = re.compile(r"(\d+)-(\d+)-(\d+)\.flac")


class CorpusError(UserError):
    """A corpus has not the layout of LibriSpeech, or not the subset."""


class AudioError(FormatError):
    """A FLAC file is damaged, or of another kind than LibriSpeech's."""


@dataclass(frozen=True, order=True)
class Utterance:
    """A recording of one speaker; the order is that of the numbers.

    ``head`` returns what `count_samples` needs of the file, ``load`` the whole file.
    """

    speaker: int
    chapter: int
    utterance: int
    name: str = field(compare=False)
    source: str = field(compare=False, repr=False)
    head: Callable[[], bytes] = field(compare=False, repr=False)
    load: Callable[[], bytes] = field(compare=False, repr=False)


def utterances(source: Path, subset: str) -> Iterator[Utterance]:
    """Yield the utterances of a subset, in the archive's order or in that of the file names.

    ``source`` is the subset's archive, or a folder: the subset's own, ``LibriSpeech``, or the one
    that holds it. Transcripts are not needed. An utterance's bytes are to be loaded before the next
    one is asked for.

    Raises:
        CorpusError: if the subset is not there or has no utterance, or if a file stands in the
            folder of another speaker or chapter.
        TarError: if the archive is damaged.
    """
    any_speech = False
    files = _from_tree(source, subset) if source.is_dir() else _from_tar(source, subset)
    for path, head, load in files:
        any_speech = True
        match, folder = _FLAC.fullmatch(path.name), path.parent
        shown = f"{source}: {path}"
        if match is None:
            raise CorpusError(f"{shown} is not called <speaker>-<chapter>-<utterance>.flac")
        speaker, chapter, utterance = match.groups()
        if (folder.parent.name, folder.name) != (speaker, chapter):
            raise CorpusError(f"{shown} is not in the folder {speaker}/{chapter}")
        yield Utterance(int(speaker), int(chapter), int(utterance), path.stem, shown, head, load)
    if not any_speech:
        raise CorpusError(f"{source} has no utterance of {subset}, no {subset}/*/*/*.flac")


@dataclass(frozen=True)
class _StreamInfo:
    """What a FLAC file says of itself; ``md5`` is of the samples, empty if it is not told."""

    sample_rate: int
    channels: int
    bits: int
    samples: int
    md5: bytes


def count_samples(flac: bytes, *, source: str, sample_rate: int) -> int:
    """Return how many samples a FLAC file has, from its header.

    Raises:
        AudioError: if it is no FLAC file, or not of one channel, 16 bits and ``sample_rate``.
    """
    return _stream_info(flac, source, sample_rate).samples


def decode(flac: bytes, *, source: str, sample_rate: int) -> NDArray[np.int16]:
    """Return the waveform (n,) of a FLAC file.

    Raises:
        AudioError: as `count_samples`, and if the file is damaged or cut off: FLAC carries the
            number of its samples and their MD5.
    """
    header = _stream_info(flac, source, sample_rate)
    try:
        waveform: NDArray[np.int16] = soundfile.read(io.BytesIO(flac), dtype="int16")[0]
    except (soundfile.SoundFileError, RuntimeError, ValueError, MemoryError) as error:
        raise AudioError(f"{source}: damaged FLAC data ({one_line(error)})") from None
    if len(waveform) != header.samples:
        raise AudioError(
            f"{source}: ends after {len(waveform)} of {header.samples} samples; fetch it again"
        )
    digest = hashlib.md5(waveform.astype("<i2").tobytes(), usedforsecurity=False).digest()
    if header.md5 and digest != header.md5:
        raise AudioError(f"{source}: the samples have not the MD5 in the header; fetch it again")
    return waveform


def _stream_info(flac: bytes, source: str, sample_rate: int) -> _StreamInfo:
    """Read the first metadata block (RFC 9639, section 8.2), 34 bytes from byte 8."""
    if len(flac) < _HEADER or flac[:4] != b"fLaC" or flac[4] & 0x7F or flac[5:8] != b"\0\0\x22":
        raise AudioError(f"{source}: no FLAC file, it does not start with fLaC and its header")
    bits = int.from_bytes(flac[18:26], "big")  # rate 20, channels 3, bits 5, samples 36
    header = _StreamInfo(
        sample_rate=bits >> 44,
        channels=(bits >> 41 & 0x7) + 1,
        bits=(bits >> 36 & 0x1F) + 1,
        samples=bits & 0xFFFFFFFFF,
        md5=flac[26:42].strip(b"\0") and flac[26:42],
    )
    kind = (header.sample_rate, header.channels, header.bits)
    if kind != (sample_rate, 1, 16):
        raise AudioError(
            f"{source}: {kind[0]} Hz, {kind[1]} channels, {kind[2]} bits; LibriSpeech has "
            f"{sample_rate} Hz, 1 channel, 16 bits"
        )
    return header


_Files = Iterator[tuple[PurePosixPath, Callable[[], bytes], Callable[[], bytes]]]


def _from_tar(source: Path, subset: str) -> _Files:
    for member in tar_members(source):
        path = PurePosixPath(member.name)
        if path.suffix == ".flac" and subset in path.parts[:-3]:
            yield path, member.read, member.read  # it is unpacked in any case


def _from_tree(source: Path, subset: str) -> _Files:
    places = [source / subset, source / "LibriSpeech" / subset]
    if source.name == subset:
        places.append(source)
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise CorpusError(
            f"{source} has no folder {subset} and no LibriSpeech/{subset}; unpack the archive "
            "there, or name it as the path"
        )
    for path in sorted(folder.rglob("*.flac")):
        shown = PurePosixPath(path.relative_to(source).as_posix())
        yield shown, partial(_head, path), path.read_bytes


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_HEADER)

"""A damaged file is named, or its data are right all the same: never a crash, never wrong data.

Each format meets seeded flips of a bit and cuts; SVHN's files are read by their checksum alone.
"""

import gzip
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ntk_conditioning.data.readers.images import FOLDER, read_cifar10, read_idx
from ntk_conditioning.data.readers.tables import read_csv, read_npz
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import MissingFileError
from tests.ntk_conditioning.data.speech.corpora import UTTERANCES, read_flac
from tests.support.sources import cifar_batches, idx_bytes, tar_bytes

VARIANTS = 100
X = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([1, 200, 3, 0, 255, 6], np.uint8)


@dataclass
class Format:
    """Flips at ``places``: a share ``harmless`` goes unnoticed, and ``exact`` samples are right."""

    content: bytes
    read: Callable[[Path], RawSamples]
    places: Sequence[int]
    harmless: float = 0
    boundaries: Sequence[int] = ()
    exact: bool = True


def npz(save: Callable[..., None]) -> Format:
    stream = io.BytesIO()
    save(stream, x=X.reshape(6, 20), y=Y)
    content = stream.getvalue()
    parts = [content.index(b"x.npy"), content.rindex(b"PK\1\2"), content.rindex(b"PK\5\6")]
    places = [*range(parts[1]), *range(128)]  # not zip's list of members
    return Format(content, read_npz, places, harmless=1, boundaries=parts)


IDX_GZ = gzip.compress(idx_bytes(X), mtime=0)
FILES = {f"{FOLDER}/{name}": content for name, content in cifar_batches(*[2] * 6).items()}
TAR = tar_bytes(FILES)
HEADERS = [TAR.index(name.encode()) for name in FILES]
IN_HEADERS = [start + byte for start in HEADERS for byte in range(512)]
NEEDED = TAR[: HEADERS[-1] + 512 * 14]  # 6146 bytes are 13 blocks
TAR_GZ = gzip.compress(TAR, 1, mtime=0)
GZIP = [0, 1, 2, *range(len(TAR_GZ) - 8, len(TAR_GZ))]  # gzip's own bytes
LINES = [f"{a},{b / 7},{y}\n" for (a, b), y in zip(X[:, 0, :2], Y, strict=True)]
CSV = ("a,b,label\n" + "".join(LINES)).encode()
FLAC = UTTERANCES[0].read_bytes()
FORMATS = {
    # time and system in gzip's header
    "idx.gz": Format(IDX_GZ, partial(read_idx, y=None), range(len(IDX_GZ)), harmless=0.1),
    "npz": npz(np.savez),
    "npz, packed": npz(np.savez_compressed),
    # what ends the digits of a header's checksum
    "tar": Format(NEEDED, read_cifar10, IN_HEADERS, 0.05, boundaries=range(0, len(NEEDED), 512)),
    "tar.gz": Format(TAR_GZ, read_cifar10, GZIP, boundaries=[10, GZIP[3], GZIP[7]]),
    "csv": Format(CSV, partial(read_csv, labels="label"), range(len(CSV)), 1, exact=False),
    # what says nothing of the samples, such as the largest frame's size
    "flac": Format(FLAC, read_flac, [*range(42)] * (len(FLAC) // 126) + [*range(len(FLAC))], 0.15),
}


def samples_or_none(path: Path, content: bytes, format: Format) -> RawSamples | None:
    """Return what is read from a file, or None if an error names it in one line."""
    path.write_bytes(content)
    try:
        return format.read(path)
    except UserError as error:
        message = str(error)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return None


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bits_and_cuts(tmp_path, name):
    format, rng = FORMATS[name], random.Random(0)
    if name != "flac":  # which are found, not named
        with pytest.raises(MissingFileError, match="absent does not exist"):
            format.read(tmp_path / "absent")
    expected = samples_or_none(tmp_path / "file", format.content, format)
    assert expected is not None
    unnoticed = 0
    for _ in range(VARIANTS):
        damaged = bytearray(format.content)
        damaged[rng.choice(format.places)] ^= 1 << rng.randrange(8)
        samples = samples_or_none(tmp_path / "file", damaged, format)
        unnoticed += samples is not None
        if samples is not None and format.exact:
            np.testing.assert_array_equal(samples.x, expected.x)
            np.testing.assert_array_equal(samples.y, expected.y)
    assert unnoticed <= format.harmless * VARIANTS

    lengths = {rng.randrange(len(format.content)) for _ in range(VARIANTS)}
    lengths |= {b + around for b in format.boundaries for around in (-1, 0, 1)}
    for length in lengths & {*range(len(format.content))}:
        samples = samples_or_none(tmp_path / "file", format.content[:length], format)
        whole = samples is not None and np.array_equal(samples.x, expected.x)  # padding is cut
        assert samples is None or name == "csv" or whole

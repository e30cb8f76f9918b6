"""A damaged file is named, or its data are right all the same: never a crash, never wrong data.

Each format meets 200 seeded flips of a bit and 200 cuts; SVHN's are read by their checksum alone.
"""

import gzip
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning.data.readers.images import FOLDER, read_cifar10, read_idx
from ntk_conditioning.data.readers.tables import read_csv, read_npz, read_parquet
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.data.speech.alignments import read_textgrid
from ntk_conditioning.data.speech.corpus import decode
from ntk_conditioning.errors import UserError
from tests.ntk_conditioning.data.speech.corpora import INTERVALS, UTTERANCES, textgrid_bytes
from tests.support.sources import cifar_batches, idx_bytes, tar_bytes

VARIANTS = 200
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


def saved(save: Callable[..., None], *arguments, **options) -> bytes:
    save(*arguments, **options)
    return next(each for each in arguments if isinstance(each, io.BytesIO)).getvalue()


def npz(content: bytes) -> Format:
    parts = [content.index(b"x.npy"), content.rindex(b"PK\1\2"), content.rindex(b"PK\5\6")]
    places = [*range(len(content)), *range(128), *range(parts[1] - 60, len(content))]
    return Format(content, partial(read_npz, labels="y"), places, 1, parts)


def read_flac(path: Path) -> RawSamples:
    waveform = decode(path.read_bytes(), source=str(path), sample_rate=16000)
    return RawSamples(waveform, None, str(path), str(path))


def read_phones(path: Path) -> RawSamples:
    """Return a sound alignment, though a digit or a letter of a phone may have changed."""
    alignment = read_textgrid(path)
    assert (alignment.starts <= alignment.ends).all()
    assert len(alignment.classes) == len(alignment.starts) <= len(INTERVALS)
    return RawSamples(alignment.starts, alignment.classes, str(path), str(path))


ARRAYS = {"x": X.reshape(6, 20), "y": Y}
TABLE = pa.table({"a": X[:, 0, 0], "b": X[:, 0, 1] / 7, "label": Y})
IDX = idx_bytes(X)
IDX_GZ = gzip.compress(IDX, mtime=0)
FILES = {f"{FOLDER}/{name}": content for name, content in cifar_batches(*[2] * 6).items()}
TAR = tar_bytes(FILES)
HEADERS = [TAR.index(name.encode()) for name in FILES]
IN_HEADERS = [start + byte for start in HEADERS[:5] for byte in range(512)]
NEEDED = TAR[: HEADERS[5]]  # the test batch is not read
TAR_GZ = gzip.compress(TAR, 1, mtime=0)
GZIP = [0, 1, 2, *range(len(TAR_GZ) - 8, len(TAR_GZ))]  # gzip's own bytes
CSV = TABLE.to_pandas().to_csv(index=False).encode()
CSV_GZ = gzip.compress(CSV, mtime=0)
PARQUET = saved(pq.write_table, TABLE, io.BytesIO(), write_page_checksum=True)
FLAC = UTTERANCES[0].read_bytes()
TEXTGRID = textgrid_bytes()
read_features = partial(read_idx, y=None)
read_table = partial(read_csv, labels="label")
read_rows = partial(read_parquet, labels="label")
ENDS = [4, len(PARQUET) - 8, len(PARQUET) - 4]
FORMATS = {
    "idx": Format(IDX, read_features, range(16), boundaries=range(0, 20, 4)),
    # time and system in gzip's header
    "idx.gz": Format(IDX_GZ, read_features, range(len(IDX_GZ)), harmless=0.1),
    "npz": npz(saved(np.savez, io.BytesIO(), **ARRAYS)),
    "npz, packed": npz(saved(np.savez_compressed, io.BytesIO(), **ARRAYS)),
    # what ends the digits of a header's checksum
    "tar": Format(NEEDED, read_cifar10, IN_HEADERS, 0.05, boundaries=range(0, len(NEEDED), 512)),
    "tar.gz": Format(TAR_GZ, read_cifar10, GZIP, boundaries=[10, GZIP[3], GZIP[7]]),
    "tar.gz, all of it": Format(TAR_GZ, read_cifar10, range(len(TAR_GZ)), harmless=0.5),
    "parquet": Format(PARQUET, read_rows, range(len(PARQUET)), 1, ENDS, exact=False),
    "csv": Format(CSV, read_table, range(len(CSV)), 1, exact=False),
    "csv.gz": Format(CSV_GZ, read_table, range(len(CSV_GZ)), 1, exact=False),
    # what says nothing of the samples, such as the largest frame's size
    "flac": Format(FLAC, read_flac, [*range(42)] * (len(FLAC) // 126) + [*range(len(FLAC))], 0.15),
    "TextGrid": Format(TEXTGRID, read_phones, range(len(TEXTGRID)), 0.6, exact=False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bits_and_cuts(tmp_path, name):
    format, rng, path = FORMATS[name], random.Random(0), tmp_path / "file"

    def samples_or_none(content: bytes) -> RawSamples | None:
        """Return what is read from a file, or None if an error names it in one line."""
        path.write_bytes(content)
        try:
            return format.read(path)
        except UserError as error:
            message = str(error)
        assert str(path) in message
        assert len(message.splitlines()) == 1
        return None

    expected = samples_or_none(format.content)
    assert expected is not None
    unnoticed = 0
    for _ in range(VARIANTS):
        damaged = bytearray(format.content)
        damaged[rng.choice(format.places)] ^= 1 << rng.randrange(8)
        samples = samples_or_none(damaged)
        unnoticed += samples is not None
        if samples is not None and format.exact:
            np.testing.assert_array_equal(samples.x, expected.x)
            np.testing.assert_array_equal(samples.y, expected.y)
    assert unnoticed <= format.harmless * VARIANTS

    lengths = {rng.randrange(len(format.content)) for _ in range(VARIANTS)}
    lengths |= {b + around for b in format.boundaries for around in (-1, 0, 1)}
    for length in lengths & {*range(len(format.content))}:
        assert samples_or_none(format.content[:length]) is None or name in ("csv", "TextGrid")

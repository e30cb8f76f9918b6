"""A damaged file is named, or its data are right all the same: never a crash, never wrong data.

Each format meets 200 seeded flips of a bit and 200 cuts; SVHN's are read by their checksum alone.
"""

import gzip
import io
import random
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
TABLE = pa.table({"a": X[:, 0, 0], "b": X[:, 0, 1] / 7, "label": Y})


def npz(save) -> bytes:
    save(stream := io.BytesIO(), x=X.reshape(6, 20), y=Y)
    return stream.getvalue()


def parquet() -> bytes:
    pq.write_table(TABLE, stream := io.BytesIO(), write_page_checksum=True)
    return stream.getvalue()


def read_flac(path: Path) -> RawSamples:
    waveform = decode(path.read_bytes(), source=str(path), sample_rate=16000)
    return RawSamples(waveform, None, str(path), str(path))


def read_phones(path: Path) -> RawSamples:
    """Return a sound alignment, though a digit or a letter of a phone may have changed."""
    alignment = read_textgrid(path)
    assert (alignment.starts <= alignment.ends).all()
    assert len(alignment.classes) == len(alignment.starts) <= len(INTERVALS)
    return RawSamples(alignment.starts, alignment.classes, str(path), str(path))


TAR = tar_bytes({f"{FOLDER}/{name}": batch for name, batch in cifar_batches(*[2] * 6).items()})
CSV = TABLE.to_pandas().to_csv(index=False).encode()
read_features = partial(read_idx, y=None)
read_labels = partial(read_npz, labels="y")
read_table = partial(read_csv, labels="label")
read_rows = partial(read_parquet, labels="label")
# content, reader, and whether a checksum or the format shows every change of a sample
FORMATS = {
    "idx.gz": (gzip.compress(idx_bytes(X), mtime=0), read_features, True),
    "npz": (npz(np.savez), read_labels, True),
    "npz, packed": (npz(np.savez_compressed), read_labels, True),
    "tar.gz": (gzip.compress(TAR, 1, mtime=0), read_cifar10, True),
    "flac": (UTTERANCES[0].read_bytes(), read_flac, True),
    "idx": (idx_bytes(X), read_features, False),
    "tar": (TAR, read_cifar10, False),
    "parquet": (parquet(), read_rows, False),
    "csv": (CSV, read_table, False),
    "csv.gz": (gzip.compress(CSV, mtime=0), read_table, True),
    "TextGrid": (textgrid_bytes(), read_phones, False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bits_and_cuts(tmp_path, name):
    (content, read, exact), path, rng = FORMATS[name], tmp_path / "file", random.Random(0)
    path.write_bytes(content)
    expected, size = read(path), len(content)
    for _ in range(VARIANTS):
        flipped = bytearray(content)
        # headers stand at the start, and what zip and Parquet hold is listed at the end
        start, end = rng.choice([(0, size), (0, min(size, 600)), (max(0, size - 300), size)])
        flipped[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
        cut = content[: rng.randrange(start, end)]
        for damaged in (flipped, cut):
            path.write_bytes(damaged)
            samples, problem = None, ""
            try:
                samples = read(path)
            except UserError as error:
                problem = str(error)
            if samples is None:
                assert str(path) in problem
                assert len(problem.splitlines()) == 1
                continue
            if exact:
                np.testing.assert_array_equal(samples.x, expected.x)
                np.testing.assert_array_equal(samples.y, expected.y)
            assert damaged is flipped or exact or name in ("csv", "TextGrid", "tar")

"""Contents of data files, written out from the formats' descriptions, and prepared samples."""

import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io

from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.data.readers.images import BATCHES


def write_prepared(path, *, n=20, d=4, labels=(0, 1, 2), seed=0, scaling="none", scale=1.0):
    """Write a prepared dataset of Gaussian samples called tiny; without labels it has none."""
    rng = np.random.default_rng(seed)
    x = scale * rng.standard_normal((n, d))
    y = np.array(labels)[rng.permutation(n) % len(labels)] if labels else None
    save_prepared(path, PreparedSamples("tiny", x, y, scaling))


def npz_bytes(save: Callable[..., None] = np.savez, **arrays: Any) -> bytes:
    save(stream := io.BytesIO(), **arrays)
    return stream.getvalue()


def parquet_bytes(columns: Any) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, stream := io.BytesIO())
    return stream.getvalue()


def idx_bytes(array: np.ndarray) -> bytes:
    unsigned = 8
    header = struct.pack(f">4B{array.ndim}I", 0, 0, unsigned, array.ndim, *array.shape)
    return header + array.astype(">u1").tobytes()


def idx_entry(folder: Path, name: str, **parts: np.ndarray) -> dict[str, Any]:
    """Write packed IDX files, one for each part, and return their entry in a catalogue."""
    files = {}
    for part, values in parts.items():
        content = gzip.compress(idx_bytes(values), mtime=0)
        (folder / f"{part}.gz").write_bytes(content)
        files[part] = {"name": f"{name}/{part}.gz", "urls": [], "bytes": len(content)}
        files[part]["sha256"] = ["0" * 64, hashlib.sha256(content).hexdigest()]
    entry = {"title": name, "reader": "idx", "scaling": "symmetric", "value_range": [0, 255]}
    return entry | {"files": files}


def tar_bytes(files: Mapping[str, bytes], *more: tarfile.TarInfo, **options: Any) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", **options) as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
        for header in more:
            archive.addfile(header)
    return stream.getvalue()


def cifar_batches(*sizes: int, seed: int = 0) -> dict[str, bytes]:
    """Return batches of so many records: a label, then red, green and blue, row by row."""
    rng = np.random.default_rng(seed)
    records = [rng.integers(0, 256, (n, 3073), dtype=np.uint8) for n in sizes]
    for batch in records:
        batch[:, 0] %= 10
    names = [*BATCHES["train"], *BATCHES["test"]]
    return {name: batch.tobytes() for name, batch in zip(names, records, strict=True)}


def svhn_bytes(n: int = 2, *, packed: bool = True, **variables: Any) -> bytes:
    """Return a MATLAB file of ``n`` images and labels, some of them replaced; None leaves out."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    arrays = {"X": images, "y": rng.integers(1, 11, (n, 1), dtype=np.uint8)} | variables
    given = {name: array for name, array in arrays.items() if array is not None}
    scipy.io.savemat(stream := io.BytesIO(), given, do_compression=packed)
    return stream.getvalue()

"""Samples and labels as their source has them; `RawSamples` checks what all must fulfil.

Libraries that one reader needs are imported there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ntk_conditioning.data.generated import cut_patches, draw_gaussian, load_digits
from ntk_conditioning.data.readers import tables
from ntk_conditioning.data.readers.images import read_cifar10, read_idx, read_svhn
from ntk_conditioning.data.samples import RawSamples


@dataclass(frozen=True)
class Reader:
    """A function of files, in this order, and of the options of a catalogue's entry.

    ``parts`` are the names of the files of both splits. ``also`` is a further option: the ``split``
    where a file has both, the accepted ``sha256`` where the content is checked first.
    """

    read: Callable[..., RawSamples]
    parts: tuple[str, ...] = ("train_x", "test_x")
    also: str = ""


READERS: Mapping[str, Reader] = {
    "gaussian": Reader(draw_gaussian, ()),
    "sklearn_digits": Reader(load_digits, ()),
    "sklearn_patches": Reader(cut_patches, ()),
    "npz": Reader(tables.read_npz),
    "parquet": Reader(tables.read_parquet),
    "csv": Reader(tables.read_csv),
    "idx": Reader(read_idx, ("train_x", "train_y", "test_x", "test_y")),
    "svhn": Reader(read_svhn, also="sha256"),
    "cifar10": Reader(read_cifar10, also="split"),
    "librispeech": Reader(partial(tables.read_npz, labels="y"), ("features",)),  # extracted before
}

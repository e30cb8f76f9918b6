"""Samples and labels as their source has them: drawn, shipped with a library, or from a file.

A module for each family of formats. Readers check that a source is what it says it is; what every
dataset must fulfil is checked by `RawSamples`, for all readers alike. Libraries that only one
reader needs are imported there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ntk_conditioning.data.generated import DIGITS, cut_patches, draw_gaussian, load_digits
from ntk_conditioning.data.readers.cifar import read_cifar10
from ntk_conditioning.data.readers.idx import read_idx
from ntk_conditioning.data.readers.npz import read_features, read_npz
from ntk_conditioning.data.readers.svhn import read_svhn
from ntk_conditioning.data.readers.tables import read_csv, read_parquet
from ntk_conditioning.data.samples import RawSamples

__all__ = [
    "DIGITS",
    "FROM_ARCHIVE",
    "FROM_FEATURES",
    "FROM_KNOWN_FILE",
    "FROM_ONE_FILE",
    "FROM_TWO_FILES",
    "GENERATED",
]

GENERATED: Mapping[str, Callable[..., RawSamples]] = {
    "gaussian": draw_gaussian,
    "sklearn_digits": load_digits,
    "sklearn_patches": cut_patches,
}
"""Readers that need no file."""

FROM_ONE_FILE: Mapping[str, Callable[..., RawSamples]] = {
    "npz": read_npz,
    "parquet": read_parquet,
    "csv": read_csv,
}
"""Readers of one file with features and labels."""

FROM_KNOWN_FILE: Mapping[str, Callable[..., RawSamples]] = {"svhn": read_svhn}
"""Readers of one file that check its content first; they take its accepted `sha256`."""

FROM_TWO_FILES: Mapping[str, Callable[..., RawSamples]] = {"idx": read_idx}
"""Readers of one file with features and another one with labels."""

FROM_ARCHIVE: Mapping[str, Callable[..., RawSamples]] = {"cifar10": read_cifar10}
"""Readers of one archive or folder that has the training and the test part; they take `split`."""

FROM_FEATURES: Mapping[str, Callable[..., RawSamples]] = {"librispeech": read_features}
"""Readers of features that were extracted from recordings beforehand; they take no options."""

"""The readers give what the datasets' authors put into their files.

Genuine files, partly subsets of the official ones, stand in a folder beside the repository where
there is room for them; elsewhere these tests are skipped.
"""

from collections import ChainMap
from pathlib import Path

import numpy as np
import pytest
import yaml

from ntk_conditioning import files
from ntk_conditioning.data.datasets import Split, read
from ntk_workflow.catalogue import dataset_source

ROOT = Path(__file__).parents[3]
FOLDER = ROOT.parent / "shared" / "data"
FILES = ("datasets.yaml", "tests/data/catalogue.yaml")
CATALOGUE = dict(ChainMap(*(yaml.safe_load((ROOT / name).read_text()) for name in FILES)))
# Counts of the labels 0 to 9; the first two are of the full datasets, as their authors have them.
COUNTS: dict[tuple[str, Split], list[int]] = {
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ("fashion_mnist", "train"): [6000] * 10,
    ("fashion_mnist", "test"): [1000] * 10,
    ("svhn_subset", "train"): [24, 84, 65, 59, 49, 45, 29, 27, 30, 30],
    ("svhn_subset", "test"): [24, 77, 67, 37, 34, 25, 44, 27, 22, 31],
    ("cifar10_subset", "train"): [342, 329, 363, 332, 353, 335, 366, 339, 345, 344],
    ("cifar10_subset", "test"): [6, 3, 2, 5, 6, 7, 10, 7, 7, 9],
}
# Mean and standard deviation of the full training parts' pixels, in units of 255, as they are
# commonly published to normalise them; of SVHN and CIFAR-10 the mean over the three colours.
PIXELS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
PIXELS |= {"svhn_subset": (0.4516, 0.1989), "cifar10_subset": (0.4734, 0.2516)}


@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_every_class_has_its_samples_and_the_pixels_are_the_datasets(name, split):
    entry = CATALOGUE[name]
    parts = {part: FOLDER / file["name"] for part, file in entry["files"].items()}
    for part, path in parts.items():
        if not path.is_file():
            pytest.skip(f"{path.name} is not in ../shared/data")
        files.require_sha256(path, entry["files"][part]["sha256"])
        assert path.stat().st_size == entry["files"][part].get("bytes", path.stat().st_size)
    dataset = read(dataset_source(name, entry), parts, split=split)
    x = dataset.x
    assert np.bincount(dataset.y).tolist() == COUNTS[name, split]
    assert x.shape == (sum(COUNTS[name, split]), 784 if "mnist" in name else 3072)
    assert (x.dtype, x.min(), x.max()) == (np.uint8, 0, 255)
    if split == "train":
        # A subset's mean differs by its choice: of n images, whose means vary by about 0.15.
        tolerance = 5 * 0.15 / len(x) ** 0.5 if name.endswith("_subset") else 5e-5
        np.testing.assert_allclose([x.mean() / 255, x.std() / 255], PIXELS[name], atol=tolerance)

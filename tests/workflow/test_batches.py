"""Which cells share a job."""

from __future__ import annotations

from itertools import product

import pytest
from batches import POINT, Batch, batches, is_small

from ntk_conditioning.cells import Grid

SAMPLES = {"small": 2000, "other": 100, "large": 60000, "unknown": None}


def grid(**axes) -> Grid:
    return Grid(
        **{"kernels": ["nngp"], "activations": ["relu", "linear"], "seeds": [1, 32], **axes}
    )


def jobs(*grids: Grid, kernels=("nngp", "infinite_ntk"), seeds=lambda _: (1, 32)) -> list[Batch]:
    return batches(grids, kernels=kernels, seeds=seeds, samples=SAMPLES.get, width=512)


def covered(found: list[Batch], depths: dict[str, list[int]]) -> list[tuple]:
    """Return all cells of the batches; ``depths`` are those of the large datasets."""
    return [
        (kernel, dataset, activation, depth, seed)
        for batch in found
        for kernel, dataset, activation in product(batch.kernels, batch.datasets, batch.activations)
        for depth in (depths[dataset] if batch.depths == POINT else batch.depths)
        for seed in batch.seeds
    ]


def test_small_datasets_have_a_rule_each_and_large_ones_share_one():
    depths = {"small": [2, 0], "other": [1], "large": [0, 1], "unknown": [3]}
    found = jobs(grid(depths=depths))
    assert [batch.suffix for batch in found] == ["_small", "_other", ""]
    assert [batch.depths for batch in found] == [(0, 2), (1,), POINT]
    assert found[-1].datasets == ("large", "unknown")
    assert [batch.place for batch in found][1:] == [
        "{dataset}/{activation}",
        "{dataset}/{activation}/depth-{depth}",
    ]


def test_overlapping_grids_of_a_small_dataset_have_every_cell_once():
    main = grid(kernels=["infinite_ntk", "nngp"], depths={"small": [0, 1], "large": [1]})
    study = grid(kernels=["infinite_ntk"], activations=["relu", "tanh"], depths={"small": [1, 4]})
    found = jobs(main, study)
    # infinite_ntk: relu of both grids, linear of the main one, tanh of the study; then nngp
    assert [batch.suffix for batch in found] == ["_small", "_small_2", "", "_small_3", "_small_4"]
    cells = covered(found, {"large": [1]})
    expected = {
        (*point, seed) for one in (main, study) for point in one.points() for seed in (1, 32)
    }
    assert len(cells) == len(set(cells))
    assert set(cells) == expected


def test_other_kernels_are_left_out():
    assert jobs(grid(depths={"small": [0]}), kernels=["empirical_ntk"]) == []


def test_large_datasets_whose_seeds_differ_have_rules_of_their_own():
    found = jobs(
        grid(depths={"large": [1], "unknown": [1]}),
        seeds=lambda dataset: ("none",) if dataset == "large" else (1, 32),
    )
    assert [(batch.suffix, batch.datasets) for batch in found] == [
        ("", ("large",)),
        ("_2", ("unknown",)),
    ]


@pytest.mark.parametrize(
    ("samples", "width", "cells", "small"),
    [
        (2000, 512, 55, True),  # the demo's and the paper's synthetic samples
        (2800, 512, 55, True),
        (3000, 512, 55, False),
        (2000, 2048, 55, False),  # wide networks take as long as many samples
        (60000, 32, 55, False),
        (100, 32, 500, True),
        (100, 32, 501, False),  # more outputs than a command may name
        (None, 32, 1, False),
    ],
)
def test_what_is_small(samples, width, cells, small):
    assert is_small(samples, width=width, cells=cells) is small

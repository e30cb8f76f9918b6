"""Which cells share a job."""

from __future__ import annotations

import itertools

import pytest

from ntk_workflow.plan.batches import LONGEST_ROW, POINT, Batch, batches, is_one_job
from ntk_workflow.plan.cells import Grid

SECONDS = {"small": 20, "other": 1, "third": 5, "large": LONGEST_ROW, "unknown": None}


def row_seconds(dataset, activation, depths, seeds):
    """Rows of ``large`` are long if they are not linear."""
    return SECONDS[dataset] and SECONDS[dataset] * (1 if activation == "linear" else 2)


def grid(**axes) -> Grid:
    return Grid(
        **{"kernels": ["nngp"], "activations": ["relu", "linear"], "seeds": [1, 32], **axes}
    )


def jobs(*grids: Grid, kernels=("nngp", "infinite_ntk"), seeds=lambda _: (1, 32)) -> list[Batch]:
    return batches(grids, kernels=kernels, seeds=seeds, seconds=row_seconds)


def covered(found: list[Batch]) -> list[tuple]:
    """Return all cells of the batches' jobs."""
    return [
        (kernel, dataset, activation, depth, seed)
        for batch in found
        for kernel, dataset, activation, depths in batch.jobs()
        for depth in depths
        for seed in batch.seeds
    ]


def test_short_rows_of_equal_depths_share_a_rule_and_so_do_all_long_ones():
    depths = {"small": [2, 0], "other": [1], "third": [0, 2], "large": [0, 1], "unknown": [3]}
    found = jobs(grid(depths=depths))
    assert [batch.suffix for batch in found] == ["_rows", "_rows_2", ""]
    assert [batch.depths for batch in found] == [(0, 2), (1,), POINT]
    assert [batch.datasets for batch in found] == [
        ("small", "third"),
        ("other",),
        ("large", "unknown"),
    ]
    assert [batch.place for batch in found][1:] == [
        "{dataset}/{activation}",
        "{dataset}/{activation}/depth-{depth}",
    ]


def test_overlapping_grids_of_small_datasets_have_every_cell_once():
    main = grid(
        kernels=["infinite_ntk", "nngp"],
        depths={"small": [0, 1], "other": [0, 1], "large": [1]},
    )
    study = grid(kernels=["infinite_ntk"], activations=["relu", "tanh"], depths={"small": [1, 4]})
    found = jobs(main, study)
    # Alone: infinite_ntk of small and relu, which has three depths, and tanh of the study.
    assert [(batch.suffix, batch.kernels, batch.datasets) for batch in found] == [
        ("_rows", ("infinite_ntk",), ("small",)),
        ("_rows_2", ("infinite_ntk",), ("small",)),
        ("_rows_3", ("infinite_ntk",), ("other",)),
        ("_rows_4", ("nngp",), ("small", "other")),
        ("", ("infinite_ntk", "nngp"), ("large",)),
        ("_rows_5", ("infinite_ntk",), ("small",)),
    ]
    cells = covered(found)
    expected = {
        (*point, seed) for one in (main, study) for point in one.points() for seed in (1, 32)
    }
    assert len(cells) == len(set(cells))
    assert set(cells) == expected


def test_what_a_rule_takes_is_what_its_rows_are():
    """Snakemake knows a rule's rows by the constraints of three wildcards, one at a time."""
    depths = {"small": [1], "other": [1], "third": [1]}
    main = grid(kernels=["infinite_ntk", "nngp"], depths=depths)
    study = grid(kernels=["nngp"], activations=["tanh"], depths={"other": [1]})
    for batch in jobs(main, study):
        taken = set(itertools.product(batch.kernels, batch.datasets, batch.activations))
        assert taken == {row[:3] for row in batch.rows}


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


def test_a_dataset_with_one_long_row_has_a_job_for_every_depth():
    found = jobs(grid(depths={"large": [0, 1]}))
    assert [batch.depths for batch in found] == [POINT]
    assert found[0].activations == ("relu", "linear")
    assert [depths for *_, depths in found[0].jobs()] == [(0,), (1,)] * 2
    alone = jobs(grid(depths={"large": [0, 1]}, activations=["linear"]))
    assert [(batch.suffix, batch.depths) for batch in alone] == [("_rows", (0, 1))]


@pytest.mark.parametrize(
    ("seconds", "cells", "one"),
    [
        (20.0, 55, True),
        (LONGEST_ROW, 55, True),
        (LONGEST_ROW + 1, 55, False),
        (20.0, 500, True),
        (20.0, 501, False),  # more outputs than a command may name
        (None, 1, False),
    ],
)
def test_what_is_one_job(seconds, cells, one):
    assert is_one_job(seconds, cells=cells) is one

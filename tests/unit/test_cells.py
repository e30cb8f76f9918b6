"""A grid and the files of its cells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ntk_workflow.plan.cells import Grid, angle_cells, datasheet_cells, spectrum_cells

GRID = Grid(
    kernels=["empirical_ntk", "empirical_nngp", "infinite_ntk", "nngp"],
    activations=["relu", "linear"],
    depths={"digits": [0, 1], "synthetic": [2]},
    seeds=[1, 32],
)


def test_spectra_are_the_whole_product_with_each_datasets_own_depths():
    cells = spectrum_cells([GRID])
    assert len(cells) == 4 * 2 * (2 + 1) * 2
    assert "nngp/synthetic/linear/depth-2/seed-32.parquet" in cells
    assert not any("synthetic" in cell and "depth-1" in cell for cell in cells)


def test_angles_are_of_gradients_only_and_without_seed_at_infinite_width():
    cells = angle_cells([GRID])
    assert len(cells) == 2 * 3 * 2 + 2 * 3
    assert not any("nngp" in cell for cell in cells)
    assert "infinite_ntk/digits/relu/depth-0/seed-none.parquet" in cells


DRAWN = replace(GRID, drawn=["synthetic"])


def test_angles_of_drawn_samples_have_a_seed_at_infinite_width_too():
    cells = angle_cells([DRAWN])
    assert len(cells) == 2 * 3 * 2 + 2 * 2 + 2 * 2
    assert "infinite_ntk/digits/relu/depth-0/seed-none.parquet" in cells
    assert "infinite_ntk/synthetic/relu/depth-2/seed-32.parquet" in cells
    assert not any("synthetic" in cell and "seed-none" in cell for cell in cells)
    assert spectrum_cells([DRAWN]) == spectrum_cells([GRID])


def test_each_draw_has_one_datasheet():
    drawn = ["synthetic/seed-1.parquet", "synthetic/seed-32.parquet"]
    assert datasheet_cells([GRID]) == ["digits/all.parquet", "synthetic/all.parquet"]
    assert datasheet_cells([DRAWN, DRAWN]) == ["digits/all.parquet", *drawn]


def test_grids_that_overlap_share_their_cells():
    other = Grid(["infinite_ntk"], ["relu", "tanh"], {"digits": [1]}, [1])
    assert len(spectrum_cells([GRID, other])) == len(spectrum_cells([GRID])) + 1


def test_json_round_trip():
    assert spectrum_cells([Grid.from_json(GRID.to_json())]) == spectrum_cells([GRID])
    assert angle_cells([Grid.from_json(DRAWN.to_json())]) == angle_cells([DRAWN])


@pytest.mark.parametrize("text", ["{}", "no json", '{"kernels": [], "other": 1}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"not a grid|Expecting"):
        Grid.from_json(text)

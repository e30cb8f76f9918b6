"""Tables are typed, sorted, documented and the same bytes for the same rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.collection import collect
from ntk_conditioning.tables.conditioning import CONDITIONING, NEEDED, summarize
from ntk_conditioning.tables.spectra import SPECTRA

ALL = [SPECTRA, ANGLES, CONDITIONING]


def spectrum_row(*, seed=1, block=0, kappa: float | None = 10.0, depth=1, **other):
    row = {
        "kernel": "empirical_ntk",
        "dataset": "digits",
        "activation": "relu",
        "depth": depth,
        "seed": seed,
        "block": block,
        "width": 512,
        "dtype": "float64",
        "n": 4,
        "d": 3,
        "method": "spectrum",
        "lambda_max": 10.0,
        "lambda_max_error": 1e-14,
        "lambda_min": 1.0 if kappa else 0.0,
        "lambda_min_error": 1e-14,
        "resolution_floor": 1e-14,
        "numerical_rank": 4 if kappa else 3,
        "kappa": kappa,
        "kappa_error": 1e-13 if kappa else None,
        "kappa_nonzero": kappa or 5.0,
        "effective_rank": 2.0,
        "reduced_precision": False,
        "eigenvalues": [10.0, 3.0, 2.0, 1.0],
    }
    return row | other


#: What `extreme_conditioning` does not know.
EXTREMES = {"method": "extremes", "effective_rank": None, "eigenvalues": None}
UNRESOLVED = {"kappa": None, "lambda_min": None, "lambda_min_error": None}


def test_same_rows_in_any_order_give_the_same_bytes(tmp_path):
    rows = [spectrum_row(seed=seed, block=block) for seed in (1, 32, 5) for block in range(3)]
    written = []
    for number in range(3):
        random.Random(number).shuffle(rows)
        path = tmp_path / f"{number}.parquet"
        tables.write(path, SPECTRA, tables.from_rows(SPECTRA, rows))
        written.append(path.read_bytes())
    assert len(set(written)) == 1


def test_what_is_read_is_what_was_written(tmp_path):
    rows = [
        spectrum_row(seed=2, kappa=None),
        spectrum_row(seed=1, eigenvalues=None),
        spectrum_row(seed=3, **EXTREMES),
        spectrum_row(seed=4, **EXTREMES, **UNRESOLVED),
    ]
    tables.write(tmp_path / "t.parquet", SPECTRA, tables.from_rows(SPECTRA, rows))
    back = tables.read(tmp_path / "t.parquet", SPECTRA).to_pylist()
    assert back == sorted(rows, key=lambda row: row["seed"])


def test_files_carry_their_own_documentation(tmp_path):
    tables.write(tmp_path / "t.parquet", SPECTRA, tables.from_rows(SPECTRA, [spectrum_row()]))
    schema = pq.read_schema(tmp_path / "t.parquet")
    assert schema.metadata[b"table"] == b"spectra"
    assert b"condition number" in schema.field("kappa").metadata[b"description"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kappa_zero": 1.0}, "kappa_zero"),
        ({"n": None}, "column n has missing values"),
        ({"method": None}, "column method has missing values"),
        ({"lambda_max_error": None}, "column lambda_max_error has missing values"),
        ({"n": "four"}, "four"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change, message):
    with pytest.raises(tables.TableError, match=message):
        tables.from_rows(SPECTRA, [spectrum_row() | change])


def test_repeated_keys_are_refused():
    with pytest.raises(tables.TableError, match="1 rows repeat the key"):
        tables.from_rows(SPECTRA, [spectrum_row(), spectrum_row()])


def test_every_missing_or_unreadable_cell_is_named(tmp_path):
    good, damaged, other = (tmp_path / f"{name}.parquet" for name in ("good", "damaged", "other"))
    tables.write(good, SPECTRA, tables.from_rows(SPECTRA, [spectrum_row()]))
    damaged.write_bytes(good.read_bytes()[:-20])
    pq.write_table(pa.table({"x": [1]}), other)
    with pytest.raises(tables.TableError) as caught:
        collect([good, damaged, other, tmp_path / "absent.parquet"], SPECTRA)
    lines = str(caught.value).splitlines()
    assert [name for name in ("damaged", "other", "absent") if name in str(caught.value)] == [
        "damaged",
        "other",
        "absent",
    ]
    assert len(lines) == 3


def test_of_many_missing_cells_twenty_are_named(tmp_path):
    paths = [tmp_path / f"{number}.parquet" for number in range(23)]
    with pytest.raises(tables.TableError) as caught:
        collect(paths, SPECTRA)
    *lines, last = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [str(path) for path in paths[:20]]
    assert last == "and 3 more files"


def test_cells_of_any_number_are_one_sorted_table(tmp_path, monkeypatch):
    monkeypatch.setattr("ntk_conditioning.tables.collection.BATCH", 3)
    rows = [spectrum_row(seed=seed) for seed in (5, 1, 7, 3, 2, 6, 4)]
    for row in rows:
        tables.write(tmp_path / f"{row['seed']}.parquet", SPECTRA, tables.from_rows(SPECTRA, [row]))
    paths = [tmp_path / f"{row['seed']}.parquet" for row in rows]
    for number in (2, 3, 7):
        some = collect(paths[:number], SPECTRA)
        assert some.equals(tables.from_rows(SPECTRA, rows[:number]), check_metadata=True)


def test_columns_that_are_not_asked_for_are_not_read(tmp_path):
    """Their bytes may be anything: where the eigenvalues are, there is a hole."""
    path = tmp_path / "t.parquet"
    row = spectrum_row(eigenvalues=[float(n) for n in range(4)])
    tables.write(path, SPECTRA, tables.from_rows(SPECTRA, [row]))
    place = pq.read_metadata(path).row_group(0)
    (eigenvalues,) = (
        place.column(n)
        for n in range(place.num_columns)
        if place.column(n).path_in_schema.startswith("eigenvalues")
    )
    content = bytearray(path.read_bytes())
    start = eigenvalues.dictionary_page_offset or eigenvalues.data_page_offset
    content[start : start + eigenvalues.total_compressed_size] = bytes(
        eigenvalues.total_compressed_size
    )
    path.write_bytes(content)
    with pytest.raises(tables.TableError, match="not a readable Parquet file"):
        collect([path], SPECTRA)
    found = collect([path], SPECTRA, columns=NEEDED)
    assert set(found.column_names) == set(NEEDED)
    assert summarize(found)["kappa_mean"].to_pylist() == [10.0]


def test_the_summary_needs_no_more_than_it_says():
    spectra = tables.from_rows(SPECTRA, [spectrum_row(seed=seed, kappa=None) for seed in (1, 2)])
    assert summarize(spectra.select(NEEDED)).equals(summarize(spectra))


def test_nothing_is_left_when_writing_fails(tmp_path):
    bad = tables.from_rows(SPECTRA, [spectrum_row()]).drop_columns(["kappa"])
    with pytest.raises(tables.TableError):
        tables.write(tmp_path / "t.parquet", SPECTRA, bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_column_says_what_it_is(table):
    assert all(len(column.description) > 5 for column in table.columns)
    assert set(table.keys) <= {column.name for column in table.columns}


class TestSummarize:
    def test_against_numpy(self):
        kappa = np.array([[10.0, 20.0, 40.0], [5.0, 80.0, 3.0]])
        rows = [
            spectrum_row(seed=seed, block=block, kappa=kappa[number, block])
            for number, seed in enumerate((1, 32))
            for block in range(3)
        ]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        assert row["kappa_mean"] == pytest.approx(kappa.mean())
        assert row["kappa_geometric_mean"] == pytest.approx(np.prod(kappa) ** (1 / 6))
        assert row["kappa_median"] == pytest.approx(np.median(kappa))
        assert (row["kappa_min"], row["kappa_max"]) == (3.0, 80.0)
        assert row["kappa_seed_min"] == pytest.approx(kappa.mean(axis=1).min())
        assert row["kappa_seed_max"] == pytest.approx(kappa.mean(axis=1).max())
        assert (row["seeds"], row["blocks"], row["resolved"]) == (2, 6, 6)

    def test_an_unresolved_kappa_is_larger_than_any_number(self):
        rows = [
            spectrum_row(seed=seed, kappa=kappa)
            for seed, kappa in ((1, 10.0), (2, 30.0), (3, None))
        ]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        assert row["kappa_mean"] is None
        assert row["kappa_max"] is None
        assert row["kappa_geometric_mean"] is None
        assert row["kappa_median"] == 30.0
        assert row["kappa_min"] == 10.0
        assert (row["resolved"], row["blocks"]) == (2, 3)

    def test_nothing_resolved_gives_no_kappa_at_all(self):
        rows = [spectrum_row(seed=seed, kappa=None) for seed in (1, 2)]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        names = ("mean", "geometric_mean", "median", "min", "max", "seed_min", "seed_max")
        assert all(row[f"kappa_{name}"] is None for name in names)
        assert row["kappa_nonzero_mean"] == 5.0

    def test_one_row_per_curve_point(self):
        rows = [spectrum_row(depth=depth, seed=seed) for depth in (1, 2) for seed in (1, 2, 3)]
        summary = summarize(tables.from_rows(SPECTRA, rows))
        assert summary["depth"].to_pylist() == [1, 2]
        assert summary["seeds"].to_pylist() == [3, 3]

    def test_the_largest_error_of_a_block_is_that_of_the_point(self):
        errors = [1e-12, None, 3e-9, 2e-10]
        rows = [
            spectrum_row(seed=seed, kappa=10.0 if error else None, kappa_error=error)
            for seed, error in enumerate(errors)
        ]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        assert row["kappa_error_max"] == 3e-9
        assert row["effective_rank_mean"] == 2.0

    def test_extremes_leave_out_what_needs_all_eigenvalues(self):
        rows = [spectrum_row(seed=seed, **EXTREMES) for seed in (1, 2)]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        assert (row["kappa_mean"], row["kappa_error_max"]) == (10.0, 1e-13)
        assert row["effective_rank_mean"] is None
        assert (row["resolved"], row["blocks"]) == (2, 2)

    def test_extremes_of_deficient_kernels_leave_out_kappa_as_well(self):
        rows = [spectrum_row(seed=seed, **EXTREMES, **UNRESOLVED) for seed in (1, 2)]
        rows = [row | {"numerical_rank": 3, "kappa_error": None} for row in rows]
        summary = summarize(tables.from_rows(SPECTRA, rows))
        assert summary.schema.names == [column.name for column in CONDITIONING.columns]
        (row,) = summary.to_pylist()
        names = [name for name, value in row.items() if value is None]
        assert names == [
            *(f"kappa_{name}" for name in ("mean", "geometric_mean", "median", "min", "max")),
            *("kappa_seed_min", "kappa_seed_max", "kappa_error_max", "effective_rank_mean"),
        ]
        assert (row["numerical_rank_min"], row["numerical_rank_max"], row["resolved"]) == (3, 3, 0)

    def test_a_mean_of_ranks_some_of_which_are_unknown_is_missing(self):
        rows = [spectrum_row(seed=1), spectrum_row(seed=2, **EXTREMES)]
        (row,) = summarize(tables.from_rows(SPECTRA, rows)).to_pylist()
        assert row["effective_rank_mean"] is None
        assert row["kappa_mean"] == 10.0

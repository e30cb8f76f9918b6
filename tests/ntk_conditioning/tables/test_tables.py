"""Tables are typed, sorted, documented and the same bytes for the same rows."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import summarize
from ntk_conditioning.tables import collect
from tests.support.rows import plain, write

SPECTRA = tables.get("spectra")
#: What is missing where only the extreme eigenvalues are known, and where kappa is not resolved.
EXTREMES = {"method": "extremes", "effective_rank": None, "eigenvalues": None}
UNRESOLVED = {"kappa": None, "lambda_min": None, "lambda_min_error": None}
KAPPAS = [f"kappa_{n}" for n in ("mean", "geometric_mean", "median", "min", "max")]
KAPPAS += ["kappa_seed_min", "kappa_seed_max"]


def spectrum_row(*, kappa: float | None = 10.0, **other):
    values = {"kappa": kappa, "kappa_error": kappa and 1e-13, "kappa_nonzero": kappa or 5.0}
    values |= {"lambda_min": 1.0, "lambda_min_error": 1e-14, "numerical_rank": 4 if kappa else 3}
    values |= {"effective_rank": 2.0, "eigenvalues": [10.0, 3.0, 2.0, 1.0], "block": 0}
    return plain("spectra", **values | other)


def spectra(*rows) -> pa.Table:
    return tables.from_rows("spectra", rows)


def test_declarations_give_types_units_and_other_tables_columns_or_are_refused(tmp_path):
    angles, study = tables.get("angles"), tables.get("activation_study")
    assert (angles.studies, angles.axes) == (("grid",), ("kernels", "datasets", "activations"))
    smallest, error, depth = map(angles.schema.field, ("min_angle", "min_angle_error", "depth"))
    assert (smallest.type, smallest.nullable, error.nullable) == (pa.float64(), False, True)
    texts = {b"description": b"smallest angle between two model gradients", b"unit": b"degrees"}
    assert smallest.metadata == texts
    assert depth.equals(SPECTRA.schema.field("depth"), check_metadata=True)
    assert SPECTRA.schema.field("eigenvalues").type == pa.list_(pa.float64())
    assert (study.columns, study.like) == (tables.get("conditioning").columns, "conditioning")
    assert tables.get("width_slopes").studies == ("orthogonality_study", "linearity_study")
    with pytest.raises(tables.TableError, match="no table 'spektra'; there are activation_study, "):
        tables.get("spektra")
    for name, kind, message in (
        ("width_slopes", "text", "text, name of the dataset' is not"),
        ("angles", "string", "kernel: 'as in spectra' is not"),  # which is not beside it
    ):
        path, text = tmp_path / f"{name}.yaml", (tables.FOLDER / f"{name}.yaml").read_text()
        path.write_text(text.replace("dataset: string", f"dataset: {kind}"))
        with pytest.raises(tables.TableError, match=rf"{name}\.yaml: .*{message}"):
            tables.declared(path)


def test_rows_in_any_order_give_the_same_bytes_and_every_reader_reads_them_sorted(tmp_path):
    rows = [
        spectrum_row(seed=-1, kappa=None, lambda_max=float("inf"), lambda_min=-5e-324, dataset=""),
        spectrum_row(seed=1, eigenvalues=[], n=2**53 - 1, dataset="Grüße|", reduced_precision=True),
        *(spectrum_row(seed=5, block=block, **EXTREMES, **UNRESOLVED) for block in (0, 2, 10)),
        spectrum_row(seed=32),
    ]
    path, other = (write(tmp_path / f"{k}.parquet", SPECTRA, *rows[::k]) for k in (-1, 1))
    assert path.read_bytes() == other.read_bytes()
    assert tables.read(path, "spectra").to_pylist() == rows
    read = pq.read_schema(path)
    assert read.metadata == SPECTRA.schema.metadata
    assert [field.metadata for field in read] == [column.metadata for column in SPECTRA.columns]
    types = {"string": pl.String, "int64": pl.Int64, "double": pl.Float64, "bool": pl.Boolean}
    types = {c.name: types.get(str(c.type), pl.List(pl.Float64)) for c in SPECTRA.columns}
    with duckdb.connect() as database:
        for frame in (pl.read_parquet(path), database.read_parquet(str(path)).pl()):
            assert (frame.to_dicts(), dict(frame.schema)) == (rows, types)


def test_rows_that_do_not_fit_are_refused_and_nothing_is_left(tmp_path):
    row = spectrum_row()
    wrong = {"kappa_zero": [row | {"kappa_zero": 1.0}], "1 rows repeat the": [row, row]}
    wrong |= {"column n has missing values": [row | {"n": None}]}
    for message, rows in wrong.items():
        with pytest.raises(tables.TableError, match=message):
            spectra(*rows)
    with pytest.raises(tables.TableError):
        tables.write(tmp_path / "t", "spectra", spectra(spectrum_row()).drop_columns(["kappa"]))
    assert not list(tmp_path.iterdir())


def test_missing_and_unreadable_cells_are_named(tmp_path):
    good, damaged, other = (tmp_path / f"{name}.parquet" for name in ("good", "damaged", "other"))
    damaged.write_bytes(write(good, SPECTRA, spectrum_row()).read_bytes()[:-20])
    pq.write_table(pa.table({"x": [1]}), other)
    bad = [damaged, other, tmp_path / "absent.parquet"]
    lines = "\n".join(f"{path}: .*" for path in bad)
    with pytest.raises(tables.TableError, match=f"^{lines}$"):
        collect([good, *bad], "spectra")


@pytest.mark.parametrize("kappa", [[[10, 20, 40], [5, 80, 3]], [[10], [30], [np.inf]]])
def test_a_summary_is_numpys_with_a_missing_kappa_larger_than_any_number(kappa):
    kappa, cells = np.array(kappa, float), []
    for (seed, block), value in np.ndenumerate(kappa):
        known = {"kappa": value, "kappa_error": value / 1e10} if np.isfinite(value) else UNRESOLVED
        cells.append(spectrum_row(seed=seed, block=block, **known))
    others = [spectrum_row(depth=depth, seed=7) for depth in (10, 2)]
    row, *more = summarize(spectra(*others, *cells)).to_pylist()
    assert [(each["depth"], each["seeds"]) for each in more] == [(2, 1), (10, 1)]
    seeds = kappa.mean(axis=1)
    expected = [kappa.mean(), np.prod(kappa) ** (1 / kappa.size), np.median(kappa)]
    expected += [kappa.min(), kappa.max(), seeds.min(), seeds.max()]
    assert [row[name] or np.inf for name in KAPPAS] == pytest.approx(expected)
    resolved = kappa[np.isfinite(kappa)]
    assert row["kappa_error_max"] == resolved.max() / 1e10
    assert (row["seeds"], row["blocks"], row["resolved"]) == (len(kappa), kappa.size, len(resolved))
    ranks = row["numerical_rank_min"], row["numerical_rank_max"]
    assert ranks == (3 + np.isfinite(kappa).all(), 4)


def test_what_is_unknown_of_the_blocks_is_missing():
    for blocks, missing, nonzero in (
        ([{}, EXTREMES], ["effective_rank_mean"], 10.0),
        ([UNRESOLVED, UNRESOLVED], [*KAPPAS, "kappa_error_max"], 5.0),
        ([EXTREMES | UNRESOLVED] * 2, [*KAPPAS, "kappa_error_max", "effective_rank_mean"], 5.0),
    ):
        rows = [spectrum_row(seed=s, width=8, **other) for s, other in enumerate(blocks)]
        (row,) = summarize(spectra(*rows)).to_pylist()
        assert [name for name, value in row.items() if value is None] == missing
        assert row["kappa_nonzero_mean"] == nonzero

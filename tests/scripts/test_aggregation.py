"""Each of many cells adds little to the memory that it takes to put them together."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from benchmarks import aggregation, memory
from ntk_conditioning import files

# Of the 13 kB that a cell adds to the peak, 8 are its eigenvalues, before and after sorting. A file
# that were kept as a table of its own, with its schema, would add 100 kB.
MOST = 40_000


@pytest.mark.slow
@pytest.mark.skipif(not memory.STATUS.exists(), reason="only Linux tells the peak")
def test_memory_grows_little_with_the_number_of_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_flush", lambda path: None)  # waiting for the disk takes minutes
    few, many = (aggregation.grid(seeds=seeds, datasets=1) for seeds in (3, 7))
    aggregation.write_cells(tmp_path / "cells", many)
    for program in aggregation.PROGRAMS:
        table = tmp_path / f"{program}.parquet"
        first = aggregation.run(program, tmp_path / "cells", few, table)
        last = aggregation.run(program, tmp_path / "cells", many, table)
        assert last["peak"] - first["peak"] < (1400 - 600) * MOST
        blocks, points = 1400 * aggregation.BLOCKS, 200
        rows = pq.read_metadata(table).num_rows
        assert rows == (blocks if program == "aggregate_spectra" else points)

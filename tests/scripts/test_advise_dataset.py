"""The advice as a program: from a user's table or a prepared dataset to a page."""

from pathlib import Path

import advise_dataset
import numpy as np
import pandas as pd

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from tests.support.trainings import to_words


def test_a_table_of_ones_own_gets_a_page_and_a_table(monkeypatch):
    monkeypatch.setattr(advise_dataset, "ACTIVATIONS", ("relu", "erf"))
    monkeypatch.setattr(advise_dataset, "DEPTHS", (1, 4))
    x = np.random.default_rng(0).standard_normal((16, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(kind=["x", "y"] * 8)
    frame.to_csv("mine.csv", index=False)
    frame.to_parquet("mine.parquet", index=False)
    save_prepared(Path("mine.npz"), PreparedSamples("m", x, np.tile([0, 1], 8)))
    pages = []
    named = {"labels": "kind"}
    for suffix, labels in (("csv", named), ("parquet", named), ("npz", {})):
        given = {"data": f"mine.{suffix}", "dataset": "<mine>", **labels, "threads": 1}
        given |= {"output": "out.parquet", "page": "out.html"}
        assert advise_dataset.main(to_words(given)) == 0
        pages.append(Path("out.html").read_text(encoding="utf-8"))
        rows = tables.read(Path("out.parquet"), "advice").to_pylist()
        assert {row["activation"] for row in rows} == {"relu", "erf"}
        assert any(row["excess"] is not None for row in rows)
    assert pages[0] == pages[1] == pages[2]
    assert "Advice on &lt;mine&gt;" in pages[0]
    assert "of 2 classes" in pages[0]
    assert "http" not in pages[0]  # nothing is loaded

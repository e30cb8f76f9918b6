from pathlib import Path

import measure_whole_dataset

from ntk_conditioning import tables
from tests.support.sources import write_prepared
from tests.support.trainings import to_words


def test_products_bound_what_the_exact_kernel_has():
    write_prepared(Path("tiny.npz"), n=60, d=9)
    given = {"dataset": "tiny", "data": "tiny.npz", "activation": ("relu", "linear")}
    given |= {"depths": (0, 2), "width": 32, "seeds": (1, 2), "threads": 1}

    def rows(name, **sizes):
        assert measure_whole_dataset.main(to_words(given | sizes | {"output": name})) == 0
        found = tables.read(Path(name), "whole_dataset").to_pylist()
        keys = ("activation", "depth", "seed", "n")
        return {tuple(row[key] for key in keys): row for row in found}

    exact = rows("exact", samples=(6, 24, 60))
    bounds = rows("bounds", samples=(6, 24), bounded=(24, 60))
    products = {key: row for key, row in bounds.items() if row["method"] == "products"}
    assert [*products] == [("relu", 2, 1, 60), ("relu", 2, 2, 60)]  # others are exact
    for key, row in products.items():
        few, whole = exact[(*key[:3], 24)], exact[key]
        top = whole["lambda_max"]
        assert top - row["lambda_max_error"] <= row["lambda_max"] <= top * (1 + 1e-12)
        assert row["kappa"] is None
        at_least = row["lambda_max"] / few["lambda_min"] * (1 - 1e-9)
        assert at_least <= row["kappa_bound"] <= whole["kappa"]
        assert row["effective_rank_low"] < row["effective_rank"] < row["effective_rank_high"]
    assert exact["linear", 0, 1, 60]["kappa"] is exact["linear", 0, 1, 60]["kappa_bound"] is None
    assert exact["relu", 2, 1, 6] == bounds["relu", 2, 1, 6]

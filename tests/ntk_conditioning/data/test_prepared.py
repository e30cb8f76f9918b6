"""Prepared files keep what they are given, and are scaled by the formulas when loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ntk_conditioning.data.archives import FormatError
from ntk_conditioning.data.prepared import (
    SCALINGS,
    PreparedError,
    PreparedSamples,
    ScalingError,
    ZeroSampleError,
    content_digest,
    load_prepared,
    save_prepared,
    scaled,
)

IMAGES = (np.arange(5 * 12).reshape(5, 12) ** 2 % 251).astype(np.uint8)
LABELS = np.array([3, 1, 4, 1, 5])
TINY = PreparedSamples("tiny", IMAGES, LABELS, "symmetric", (0.0, 255.0))


class TestScaled:
    def test_the_formulas(self):
        x = np.array([[0, 51], [255, 102]], dtype=np.uint8)

        def by(scaling: Any, limits: Any = None) -> np.ndarray:
            return scaled(PreparedSamples("two", x, None, scaling, limits))

        assert by("none").tolist() == [[0, 51], [255, 102]]
        assert by("unit_interval", (0, 255)).tolist() == [[0, 0.2], [1, 0.4]]
        assert by("symmetric", (0, 255)).tolist() == [[-1, 0.2 * 2 - 1], [1, 0.4 * 2 - 1]]
        np.testing.assert_allclose(
            by("unit_norm"), [[0, 1], [5 / 29**0.5, 2 / 29**0.5]], rtol=1e-15
        )
        np.testing.assert_allclose(by("standardize"), [[-1, -1], [1, 1]], rtol=1e-15)
        assert all(by(name, (0, 255)).dtype == np.float64 for name in SCALINGS)
        assert x.tolist() == [[0, 51], [255, 102]]

    MATRICES = hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6),
        elements=st.floats(-1e300, 1e300, allow_subnormal=False).filter(
            lambda v: v == 0 or abs(v) > 1e-300
        ),
    )

    @given(MATRICES)
    def test_unit_norm_gives_norm_1_at_any_size(self, x):
        x[:, 0] += x[:, 0] == 0
        norms = np.linalg.norm(scaled(PreparedSamples("any", x, None, "unit_norm")), axis=1)
        np.testing.assert_allclose(norms, 1, rtol=1e-14)  # a few roundings per feature

    @given(MATRICES)
    def test_standardize_gives_mean_0_and_variance_1_or_a_constant_0(self, x):
        x[:, 0] = np.arange(len(x))  # no row becomes zero unless it is at the mean
        x = np.vstack([x, x[-1] + len(x)])
        try:
            found = scaled(PreparedSamples("any", x, None, "standardize"))
        except ZeroSampleError:
            return
        constant = (x == x[0]).all(axis=0)
        assert not found[:, constant].any()
        # Where the spread is small against the values, subtracting the mean leaves rounding.
        clear = ~constant & (np.ptp(x, axis=0) > 1e-3 * np.abs(x).max(axis=0))
        np.testing.assert_allclose(found[:, clear].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(found[:, clear].var(axis=0), 1, rtol=1e-12)

    def test_a_constant_column_whose_mean_is_rounded_stays_zero(self):
        x = np.column_stack([np.full(10, 0.1), np.arange(10) ** 2])
        assert x.mean(axis=0)[0] != 0.1  # else this tests nothing
        assert not scaled(PreparedSamples("any", x, None, "standardize"))[:, 0].any()

    def test_values_beyond_float64_are_named(self):
        x = np.array([[1e308, 1], [-1e308, 0], [1.7e308, 1]])
        with pytest.raises(ScalingError, match=r"huge: row 0, column 0 is .* after scaling stand"):
            scaled(PreparedSamples("huge", np.abs(x), None, "standardize"))

    @pytest.mark.parametrize(
        ("scaling", "limits", "when"),
        [
            ("none", None, "after"),
            ("unit_interval", (0.0, 1.0), "after"),
            ("symmetric", (-1.0, 1.0), "after"),
            ("unit_norm", None, "before"),
        ],
    )
    def test_zero_rows_are_named(self, scaling, limits, when):
        x = np.array([[1.0, 0], [0, 0], [0, 0]])
        problem = f"zeros: 2 samples are zero {when} scaling {scaling}, the first in row 1"
        with pytest.raises(ZeroSampleError, match=problem):
            scaled(PreparedSamples("zeros", x, None, scaling, limits))


class TestPrepared:
    @pytest.mark.parametrize("scaling", SCALINGS)
    @pytest.mark.parametrize("labels", [LABELS, None])
    def test_round_trip(self, tmp_path, scaling, labels):
        samples = PreparedSamples("tiny", IMAGES, labels, scaling, (0.0, 255.0))
        save_prepared(tmp_path / "tiny.npz", samples)
        found = load_prepared(tmp_path / "tiny.npz")
        np.testing.assert_array_equal(found.x, scaled(samples))
        assert (found.x.dtype, found.name, found.scaling) == (np.float64, "tiny", "none")
        np.testing.assert_array_equal(found.x, scaled(found))  # nothing is scaled twice
        np.testing.assert_array_equal(found.y, labels)

    def test_bytes_repeat_and_keep_the_type_but_no_time(self, tmp_path):
        for name in ("a.npz", "b.npz"):
            save_prepared(tmp_path / name, TINY)
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
        with zipfile.ZipFile(tmp_path / "a.npz") as archive:
            assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
            assert arrays["x"].dtype == np.uint8

    def test_other_archives_are_named(self, tmp_path):
        path = tmp_path / "other.npz"
        for about in ({}, {"about": "no JSON"}, {"about": "[]"}):
            np.savez(path, x=IMAGES, **about)
            with pytest.raises(PreparedError, match=r"other.npz is no prepared dataset; run this"):
                load_prepared(path, hint="run this")
        path.write_bytes(b"PK")
        with pytest.raises(FormatError, match=r"other.npz"):
            load_prepared(path)

    def test_the_digest_sees_values_labels_types_shapes_and_scaling(self):
        x, y = IMAGES, LABELS
        others = [
            replace(TINY, x=x + np.uint8(1)),
            replace(TINY, y=y + 1),
            replace(TINY, y=None),
            replace(TINY, x=x.astype(np.int8)),
            replace(TINY, x=x.reshape(10, 6), y=None),
            replace(TINY, scaling="unit_interval"),
            replace(TINY, value_range=(0.0, 256.0)),
        ]
        assert len({content_digest(samples) for samples in [TINY, *others]}) == 8
        assert content_digest(TINY) == content_digest(replace(TINY, x=x.copy()))


@pytest.mark.parametrize("module", ["data.prepared", "data.datasets"])
def test_libraries_are_imported_only_where_they_are_used(module):
    heavy = {"torch", "pandas", "sklearn", "pyarrow", "jsonschema"}
    if module == "data.prepared":  # else a computation would depend on how data are read
        heavy |= {"ntk_conditioning.data.readers"}
    code = f"import sys, ntk_conditioning.{module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"

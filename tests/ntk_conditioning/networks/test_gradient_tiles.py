"""Panels and tiles cover every pair once, in bounded memory and in full precision."""

import itertools
import math
import subprocess
import sys
import weakref
from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.networks.gradient_tiles import Panels, full_precision, panel_rows, tiles
from ntk_conditioning.networks.mlp import GradientFactors
from tests.ntk_conditioning.gradients import float32_products


@pytest.mark.parametrize("number", range(1, 8))
def test_panels_are_paired_once_and_no_three_are_alive(number):
    computed, alive = [], weakref.WeakSet()

    def compute(span):
        assert len(alive) < 2  # three would not fit while this one is computed
        computed.append(span)
        factors = GradientFactors((), ())
        alive.add(factors)
        return factors

    n, pairs = 3 * number - 1, []
    panels = Panels(n, 3, compute)
    assert [k for span in panels.spans for k in range(n)[span]] == list(range(n))
    for i, j in panels.pairs():
        here, there = panels[i], panels[j]
        assert (here.span, there.span) == (panels.spans[i], panels.spans[j])
        del here, there  # a caller must not hold two panels for longer
        pairs.append((i, j))
    assert sorted(pairs) == [(i, j) for i in range(number) for j in range(i, number)]
    # Every pair needs one new panel at most, and a pair of one panel none but the first.
    assert len(computed) <= 1 + math.comb(number, 2)


@given(*(st.integers(*ends) for ends in ((1, 10**6), (0, 10**5), (0, 10**9), (1, 5000))))
def test_two_panels_fit_into_the_memory_unless_the_least_forbids(n, row_bytes, memory, least):
    rows = panel_rows(n, row_bytes=row_bytes, memory=memory, least=least)
    assert rows >= min(n, least)
    if n * row_bytes <= memory:
        assert rows == n
        return
    assert rows == least or 2 * rows * row_bytes <= memory
    panels = math.ceil(n / rows)
    assert rows in (least, math.ceil(n / panels))  # they are as equal as can be
    assert panels == math.ceil(n / max(least, memory // (2 * row_bytes)))  # and as few


def pairs_of(tile: tuple[slice, slice]) -> set[tuple[int, int]]:
    return set(itertools.product(*(range(part.start, part.stop) for part in tile)))


SPANS = st.builds(lambda a, n: slice(a, a + n), st.integers(0, 9), st.integers(1, 25))
SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 40))


@given(SPANS, SPANS, SHAPES, st.booleans())
def test_tiles_cover_pairs_once_or_the_triangle_with_squares_on_the_diagonal(r, c, shape, upper):
    c, shape = (r, sorted(shape)) if upper else (c, shape)
    parts = [*tiles(r, c, tuple(shape), upper=upper)]
    for part in parts:
        assert all(0 < b.stop - b.start <= most for b, most in zip(part, shape, strict=True))
        if upper:  # a square first, or wholly above the diagonal
            assert part[1].start >= (part[0].stop if part[1].start > part[0].start else 0)
            assert part[1].stop >= part[0].stop
    covered = [pairs_of(part) for part in parts]
    assert sum(map(len, covered)) == len(set().union(*covered))
    expected = {(i, j) for i, j in pairs_of((r, c)) if i <= j or not upper}
    squares = (pairs_of((p[0], p[0])) for p in parts if upper and p[0].start == p[1].start)
    assert set().union(*covered) == expected.union(*squares)


@pytest.mark.parametrize("allowed", ["medium", "highest"])
def test_precision_is_full_inside_and_tf32_only_on_a_gpu_where_asked(allowed):
    matmul = torch.backends.cuda.matmul
    with float32_products(allowed):
        with full_precision(tf32=True):
            assert matmul.allow_tf32
            assert torch.backends.cudnn.allow_tf32
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
        with suppress(LookupError), full_precision():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not matmul.allow_tf32
            assert not torch.backends.cudnn.allow_tf32
            raise LookupError
        assert torch.backends.cudnn.allow_tf32  # torch's default


def test_precision_follows_a_caller_of_the_newer_interface():
    """In a process of its own: what torch has seen of either interface cannot be undone."""
    code = """if True:
        import torch
        from ntk_conditioning.networks.gradient_tiles import full_precision
        settings = torch.backends
        backends = settings.cuda.matmul, settings.cudnn.conv, settings.mkldnn.matmul
        for precisions in (["ieee", "tf32", "tf32"], ["tf32", "ieee", "ieee"]):
            for backend, precision in zip(backends, precisions):
                backend.fp32_precision = precision
            for tf32, expected in ((True, ["tf32"] * 2 + ["ieee"]), (False, ["ieee"] * 3)):
                with full_precision(tf32=tf32):
                    assert [backend.fp32_precision for backend in backends] == expected
                assert [backend.fp32_precision for backend in backends] == precisions
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})

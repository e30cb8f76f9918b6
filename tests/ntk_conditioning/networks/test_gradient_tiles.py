"""Panels and tiles cover every pair once, in bounded memory and in full precision."""

from __future__ import annotations

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

from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panels, Products, panel_rows
from ntk_conditioning.networks.mlp import GradientFactors, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator


def network(*, d=5, depth=2, width=8, dtype=torch.float64):
    init = generator(1, "init")
    return init_mlp(d, depth=depth, width=width, activation="relu", generator=init, dtype=dtype)


def inputs(n, d=5):
    return torch.from_numpy(generator(1, "data").standard_normal((n, d)))


@pytest.fixture
def _caller_allows_bfloat16():
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(allowed)


def counted_panels(n, size):
    """Return panels, the spans computed so far, and the factors that are alive."""
    computed, alive = [], weakref.WeakSet()

    def compute(span):
        # What is alive while a panel is computed counts, too: it will not fit otherwise.
        assert len(alive) < 2
        computed.append(span)
        factors = GradientFactors((), ())
        alive.add(factors)
        return factors

    return Panels(n, size, compute), computed, alive


def use(panels, i, j):
    """Hold two panels no longer than this call, as the class asks for."""
    here, there = panels[i], panels[j]
    return here.span, there.span


@pytest.mark.parametrize("number", range(1, 8))
def test_panels_are_paired_once_and_no_three_are_alive(number):
    panels, computed, alive = counted_panels(3 * number, 3)
    seen = []
    for i, j in panels.pairs():
        spans = use(panels, i, j)
        assert spans == (panels.spans[i], panels.spans[j])
        assert len(alive) <= 2
        seen.append((i, j))
    assert sorted(seen) == [(i, j) for i in range(number) for j in range(i, number)]
    # Every pair needs one new panel at most, and a pair of one panel none but the first.
    assert len(computed) <= 1 + math.comb(number, 2)


@pytest.mark.parametrize(("number", "computes"), [(1, 1), (2, 2), (3, 4)])
def test_panels_are_computed_no_more_often_than_two_of_them_allow(number, computes):
    panels, computed, _ = counted_panels(number, 1)
    for i, j in panels.pairs():
        use(panels, i, j)
    assert len(computed) == computes


@given(n=st.integers(1, 60), size=st.integers(1, 70))
def test_spans_cover_all_samples_in_order(n, size):
    panels, computed, _ = counted_panels(n, size)
    assert [k for span in panels.spans for k in range(n)[span]] == list(range(n))
    assert all(0 < span.stop - span.start <= size for span in panels.spans)
    assert not computed


def test_a_panel_numbers_its_rows_among_all_samples():
    mlp, x = network(), inputs(10)
    panels = Panels(10, 4, lambda span: gradient_factors(mlp, x[span]))
    found = panels[1].rows(slice(5, 8))
    assert torch.equal(found.alphas[0], x[5:8])
    assert [len(part) for part in (*found.alphas, *found.deltas)] == [3] * 5


@given(
    n=st.integers(1, 10**6),
    row_bytes=st.integers(0, 10**5),
    memory=st.integers(0, 10**9),
    least=st.integers(1, 5000),
)
def test_two_panels_fit_into_the_memory_unless_the_least_forbids(n, row_bytes, memory, least):
    rows = panel_rows(n, row_bytes=row_bytes, memory=memory, least=least)
    assert rows >= min(n, least)
    if n * row_bytes <= memory:
        assert rows == n
        return
    assert rows == least or 2 * rows * row_bytes <= memory
    # No fewer rows would do for that number of panels: they are as equal as can be.
    panels = math.ceil(n / rows)
    assert rows in (least, math.ceil(n / panels))
    # And no more panels than the memory makes necessary.
    assert panels == math.ceil(n / max(least, memory // (2 * row_bytes)))


@pytest.mark.parametrize("memory", [0, 1, 799])
def test_a_sample_that_takes_nothing_needs_one_panel_only(memory):
    assert panel_rows(100, row_bytes=0, memory=memory, least=1) == 100


def pairs_of(r, c):
    return itertools.product(range(r.start, r.stop), range(c.start, c.stop))


@given(
    n=st.integers(1, 30),
    height=st.integers(1, 40),
    extra=st.integers(0, 40),
)
def test_upper_tiles_cover_the_triangle_once_and_squares_on_the_diagonal(n, height, extra):
    """Tiles are at least as wide as high, or a square would not fit into one."""
    shape = (height, height + extra)
    found, squares = [], set()
    for r, c in gradient_tiles.tiles(slice(n), slice(n), shape, upper=True):
        assert 0 < r.stop - r.start <= shape[0]
        assert 0 < c.stop - c.start <= shape[1]
        assert c.start >= r.start
        if c.start == r.start:
            assert c.stop >= r.stop
            squares |= set(pairs_of(r, r))
        else:
            assert c.start >= r.stop
        found += pairs_of(r, c)
    assert len(found) == len(set(found))
    assert {(i, j) for i, j in found if i <= j} == {(i, j) for j in range(n) for i in range(j + 1)}
    assert {(i, j) for i, j in found if i > j} == {(i, j) for i, j in squares if i > j}


@given(
    rows=st.tuples(st.integers(0, 9), st.integers(1, 20)),
    columns=st.tuples(st.integers(0, 9), st.integers(1, 20)),
    shape=st.tuples(st.integers(1, 25), st.integers(1, 25)),
)
def test_tiles_of_two_sets_cover_all_pairs_once(rows, columns, shape):
    r, c = (slice(start, start + count) for start, count in (rows, columns))
    found = [pair for t in gradient_tiles.tiles(r, c, shape, upper=False) for pair in pairs_of(*t)]
    assert len(found) == rows[1] * columns[1]
    assert set(found) == set(pairs_of(r, c))


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_take_the_bytes_that_are_planned_for(depth, dtype):
    mlp, x = network(depth=depth, dtype=dtype), inputs(7).to(dtype)
    factors = gradient_factors(mlp, x)
    taken = sum(part.nbytes for part in (*factors.alphas[1:], *factors.deltas))
    assert taken == 7 * gradient_tiles.factor_bytes(mlp, dtype)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_products_are_sums_of_layers_and_forget_the_tile_before(depth):
    """Computed in parts of one matrix, whose rows are not next to each other."""
    mlp, x = network(depth=depth), inputs(9)
    factors = gradient_factors(mlp, x)
    deltas = [*factors.deltas, x.new_ones(9, 1)]
    expected = sum((a @ a.T) * (d @ d.T) for a, d in zip(factors.alphas, deltas, strict=True))
    found, products = torch.full((9, 9), torch.nan, dtype=torch.float64), Products(x, (4, 5))
    for r, c in gradient_tiles.tiles(slice(9), slice(9), (4, 5), upper=False):
        products.kernel(found[r, c], factors.rows(r), factors.rows(c))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    total = torch.zeros(4, 3, dtype=torch.float64)
    for layer in range(depth + 1):
        products.add_layer(total, factors.rows(slice(4)), factors.rows(slice(6, 9)), layer)
    torch.testing.assert_close(total, expected[:4, 6:], rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("_caller_allows_bfloat16")
def test_full_precision_holds_inside_and_ends_with_the_block_or_an_exception():
    with suppress(LookupError), gradient_tiles.full_precision():
        assert torch.get_float32_matmul_precision() == "highest"
        raise LookupError
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize("backend", ["mkldnn", "cuda"])
def test_full_precision_follows_a_caller_of_the_newer_interface(backend):
    """In a process of its own: what torch has seen of either interface cannot be undone."""
    code = f"""if True:
        import torch
        from ntk_conditioning.networks.gradient_tiles import full_precision
        matmul = torch.backends.{backend}.matmul
        if not hasattr(matmul, "fp32_precision"):  # before torch 2.9
            raise SystemExit
        matmul.fp32_precision = "tf32"
        with full_precision():
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})

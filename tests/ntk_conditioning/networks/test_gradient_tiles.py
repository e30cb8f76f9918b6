"""Panels cover every pair once, in bounded memory and in full precision."""

import math
import subprocess
import sys
import weakref
from contextlib import ExitStack, suppress

import pytest
import torch

from ntk_conditioning.networks.gradient_tiles import Panels, full_precision
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


@pytest.mark.parametrize("allowed", ["medium", "highest"])
def test_precision_is_full_inside_until_the_last_is_done_and_tf32_only_where_all_ask(allowed):
    """As threads that overlap, of which one fails."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with float32_products(allowed):
        with suppress(LookupError), ExitStack() as last:
            with full_precision(tf32=True):
                assert matmul.allow_tf32
                assert cudnn.allow_tf32
                assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
                last.enter_context(full_precision())
                assert not matmul.allow_tf32
                assert not cudnn.allow_tf32
            assert torch.get_float32_matmul_precision() == "highest"
            raise LookupError
        assert cudnn.allow_tf32  # torch's default


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

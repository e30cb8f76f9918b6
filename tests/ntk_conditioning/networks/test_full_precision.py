"""Products keep full precision, but for TF32 on a GPU where it is asked for."""

from __future__ import annotations

import subprocess
import sys

import torch

from ntk_conditioning.networks.gradient_tiles import full_precision


def test_tf32_is_allowed_inside_only_and_only_on_a_gpu():
    allowed = torch.get_float32_matmul_precision()
    matmul = torch.backends.cuda.matmul
    try:
        for name in ("medium", "highest"):
            torch.set_float32_matmul_precision(name)
            before = matmul.allow_tf32
            with full_precision(tf32=True):
                assert matmul.allow_tf32
                if hasattr(matmul, "fp32_precision"):  # from torch 2.9 on
                    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
            assert torch.get_float32_matmul_precision() == name
            assert matmul.allow_tf32 == before
            with full_precision():
                assert not matmul.allow_tf32
    finally:
        torch.set_float32_matmul_precision(allowed)


def test_tf32_follows_a_caller_of_the_newer_interface():
    """In a process of its own: what torch has seen of either interface cannot be undone."""
    code = """if True:
        import torch
        from ntk_conditioning.networks.gradient_tiles import full_precision
        backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
        if not hasattr(backends[0], "fp32_precision"):  # before torch 2.9
            raise SystemExit
        for precisions in (["ieee", "tf32"], ["tf32", "ieee"]):
            for backend, precision in zip(backends, precisions):
                backend.fp32_precision = precision
            with full_precision(tf32=True):
                assert [backend.fp32_precision for backend in backends] == ["tf32", "ieee"]
            assert [backend.fp32_precision for backend in backends] == precisions
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})

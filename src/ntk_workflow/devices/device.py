"""Where the networks of a cell live: the argument, and the device that it comes to."""

from __future__ import annotations

import argparse
import os
from collections.abc import MutableMapping

import torch

from ntk_workflow.cli import UsageError, logger
from ntk_workflow.devices import gpu_lock
from ntk_workflow.devices.gpu_lock import VISIBLE

log = logger(__file__)


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device of programs that compute with torch."""
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda", "auto"],
        default="cpu",
        help="where to compute; auto is a GPU if there is one, else the CPU",
    )


def torch_device(args: argparse.Namespace) -> torch.device:
    """Return the device that was asked for, and note its type in ``args`` in place of ``auto``.

    To be called before anything asks what a result depends on: checkpoints are the same however
    the device was named. A GPU is this process's alone until it ends.

    Raises:
        UsageError: if it must be a GPU and there is none.
    """
    asked = args.device
    if asked != "cpu":
        missing = claim_gpu(os.environ)
        if missing and asked == "cuda":
            raise UsageError(
                f"--device cuda: torch sees no GPU here ({missing}); give the job a GPU, install "
                "a CUDA build of torch, or let it use the CPU with device auto"
            )
        args.device = "cpu" if missing else "cuda"
        if asked == "auto":
            log.info("device auto: %s", f"the CPU, no GPU ({missing})" if missing else "a GPU")
    return torch.device(args.device)


def claim_gpu(environ: MutableMapping[str, str]) -> str | None:
    """Make a GPU this process's own; return why there is none, or None.

    In a Slurm job the GPUs that are visible are the job's own. Elsewhere one is chosen, before
    anything starts CUDA: its driver reads CUDA_VISIBLE_DEVICES once.
    """
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return "torch is a CPU build"
    devices = gpu_lock.visible(environ, torch.cuda.device_count)
    if not devices and VISIBLE in environ:
        return f"{VISIBLE} is {environ[VISIBLE]!r}: the job was given none"
    held = None
    if devices and "SLURM_JOB_ID" not in environ:
        held = gpu_lock.hold_one(devices, gpu_lock.lock_folder(environ))
        environ[VISIBLE] = held
    if not torch.cuda.is_available():
        if held:
            gpu_lock.release(held)
        return "no driver or no device is found"
    if held and torch.cuda.device_count() > 1:  # without NVML, torch starts CUDA to count GPUs
        raise UsageError(f"GPUs cannot be counted before one is chosen; name them in {VISIBLE}")
    return None

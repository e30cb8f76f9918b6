"""What a measurement was made on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import threadpoolctl


def facts(threads: int) -> dict[str, Any]:
    """Return processor, memory, threads and versions."""
    libraries = ("torch", "numpy", "scipy")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in libraries},
        "blas": sorted(
            {f"{p['internal_api']} {p['version']}" for p in threadpoolctl.threadpool_info()}
        ),
    }


def sentence(machine: dict[str, Any], gemm_gflops: dict[str, dict[str, float]] | None) -> str:
    """Return the facts as a reader needs them beside a table."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    memory = machine["memory_gb"]
    text = (
        f"{machine['processor']}, {machine['threads']} thread{'s' * (machine['threads'] > 1)}"
        f"{f', {memory:.0f} GB' if memory else ''}; {versions}."
    )
    if gemm_gflops:
        rates = ", ".join(f"{rate['median']:.0f} in {t}" for t, rate in gemm_gflops.items())
        text += f" Matrix product in the same process: {rates} GFLOP/s."
    return text


def processor() -> str:
    """Return the processor's name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return None

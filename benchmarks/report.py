"""What benchmarks write: results/NAME.json, a section of README.md, and facts of the machine."""

import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from ntk_conditioning.files import write_text

HERE = Path(__file__).parent


def machine_facts(threads: int) -> dict[str, Any]:
    """Return processor, memory, threads and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    libraries = ("torch", "numpy", "scipy")
    return {
        "processor": processor,
        "memory_gb": psutil.virtual_memory().total / 1e9,
        "threads": threads,
        "versions": {"python": platform.python_version()} | {n: version(n) for n in libraries},
    }


def machine_sentence(
    machine: dict[str, Any], gemm_gflops: dict[str, dict[str, float]] | None = None
) -> str:
    """Return the facts and the rates of matrix products for a reader."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    text = (
        f"{machine['processor']}, {machine['threads']} thread{'s' * (machine['threads'] > 1)}"
        f", {machine['memory_gb']:.0f} GB; {versions}."
    )
    if gemm_gflops:
        rates = ", ".join(f"{rate['median']:.0f} in {t}" for t, rate in gemm_gflops.items())
        text += f" Matrix product in the same process: {rates} GFLOP/s."
    return text


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown, with an empty line after it.

    >>> table(("a", "b"), [(1, 2)])
    ['| a | b |', '| --- | --- |', '| 1 | 2 |', '']
    """
    cells = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(map(str, row))} |" for row in cells), ""]


def spread_text(values: dict[str, float], digits: int = 3) -> str:
    """Return median (least … largest).

    >>> spread_text({"median": 2.0, "min": 1.0, "max": 3.5})
    '2 (1 … 3.5)'
    """
    middle, low, high = (number(values[key], digits) for key in ("median", "min", "max"))
    return f"{middle} ({low} … {high})"


def number(value: float, digits: int = 3) -> str:
    """Return a value in so many digits, or in whole thousands.

    >>> number(0.12345), number(3021.4)
    ('0.123', '3,021')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{digits}g}"


def write_section(name: str, title: str, section: str, folder: Path) -> None:
    """Write a benchmark's section into README.md: over the old one, or at the end."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else "# Benchmarks\n"
    start = f"<!-- {name}: written by python -m benchmarks {name} -->\n"
    end = f"<!-- end of {name} -->\n"
    if start not in text:
        text = f"{text.rstrip()}\n\n## {title}\n\n{start}{end}"
    before, _, rest = text.partition(start)
    after = rest.partition(end)[2]
    write_text(readme, f"{before}{start}\n{section.rstrip()}\n\n{end}{after}")

"""Write docs/gallery.md and the demo's pictures beside it, from the finished demo.

PYTHONPATH=src:scripts python -m docs.build.gallery [RUN]

RUN is the folder in which `make demo` has run, with its results and logs; else this one.
"""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pandas as pd
from PIL import Image, ImageChops, ImageStat

from ntk_conditioning.files import write_text
from ntk_workflow.config import read_yaml
from ntk_workflow.listing import CATEGORIES, target, title

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/gallery.md"
HEAD = """# Figures

`make demo` draws all of them; each command draws one, and runs only what that needs. Times are of
one core and include all that the figure needs, on the machine that drew the pictures. Pictures are
the demo's, which is smaller than the papers' experiments, where nothing else is said."""


def seconds(figure: str, run: Path) -> float:
    """Return the processor time in seconds of all jobs that a figure needs, from the run's logs."""
    command = [sys.executable, "-m", "snakemake", "-n", "--forceall", target(figure)]
    plan = subprocess.run(command, cwd=run, capture_output=True, text=True, check=True)
    logs = set(re.findall(r"benchmark: (\S+)", plan.stdout + plan.stderr))
    return sum(pd.read_csv(run / log, sep="\t")["cpu_time"].sum() for log in logs)


def save_picture(path: Path, name: str) -> None:
    """Write a picture into docs/, in 256 colours unless these would band it."""
    with Image.open(path) as picture:
        full = picture.convert("RGB")
    small = full.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    banded = max(ImageStat.Stat(ImageChops.difference(full, small.convert("RGB"))).mean) > 1
    (full if banded else small).save(ROOT / "docs" / name, optimize=True)


def section(figure: str, run: Path) -> str:
    """Return a figure's part of the page: title, pictures, command with its time, caption."""
    caption = " ".join((ROOT / f"notebooks/{figure}.rst").read_text(encoding="utf-8").split())
    caption = re.sub(r"\*\*.*?\*\* ", "", caption, count=1)
    save_picture(run / f"results/demo/figures/{figure}.png", f"{target(figure)}_demo.png")
    parts = [f"### {title(figure)}"]
    command = f"snakemake {target(figure)}"
    for path in sorted(ROOT.glob(f"docs/{target(figure)}_*.png"), key=lambda p: "_demo" in p.name):
        config = path.stem.rpartition("_")[2]
        if (ROOT / f"config/{config}.yaml").exists():
            parts.append(f"`{command} --configfile config/{config}.yaml`")
        elif config == "demo":
            parts.append(f"`{command}` · {seconds(figure, run):.0f} s")
        else:
            parts.append(f"At another size, from [resources/](../resources/README.md): {config}")
        parts.append(f"![{figure}, {config}]({path.name})")
    parts.append(re.sub(r":math:`([^`]*)`", r"$\1$", caption))
    return "\n\n".join(parts)


def main(run: Path) -> None:
    """Write the page, by paper."""
    parts = [HEAD]
    names = read_yaml(ROOT / "notebooks/figures.yaml")
    for paper, figures in groupby(names, key=lambda name: name.split("/")[0]):
        parts.append(f"## {CATEGORIES[paper].split(maxsplit=1)[1]}")
        parts += [section(figure, run) for figure in figures]
    write_text(PAGE, "\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

"""Draw the figures of an unpacked bundle again, from its tables alone, and compare the pictures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from ntk_conditioning.errors import one_line
from ntk_workflow.bundle import BundleError, images
from ntk_workflow.cli import logger
from ntk_workflow.figures.parameters import parameters, tables_of, to_words
from ntk_workflow.provenance.digests import source_digest

ROOT = Path(__file__).resolve().parents[3]
RUNNER = ROOT / "scripts" / "run_notebook.py"

log = logger(__file__)


def require_same_figures(folder: Path, run: str) -> int:
    """Return how many figures were drawn again and are the same.

    ``folder`` has the bundle's payload; the notebooks that run are this checkout's, never the
    bundle's. Where the run's were others, the log says so.

    Raises:
        BundleError: for figures that cannot be drawn, or come out different.
    """
    results = Path("results", run)
    config = yaml.safe_load((folder / results / "record/config.yaml").read_text(encoding="utf-8"))
    known = yaml.safe_load((ROOT / "notebooks" / "figures.yaml").read_text(encoding="utf-8"))
    codes = recorded_codes(folder / results / "record/jobs.json")
    pictures = sorted((folder / results / "figures").rglob("*.png"))
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder / results / "tables", Path(scratch) / results / "tables")
        for picture in pictures:
            figure = picture.relative_to(folder / results / "figures").with_suffix("").as_posix()
            if figure not in known:
                problems.append(f"{figure}: this checkout has no such figure")
                continue
            warn_of_other_code(figure, codes)
            problem = draw(figure, known[figure], config, Path(scratch), results)
            again = Path(scratch, results, "figures", f"{figure}.png")
            problem = problem or compared(figure, picture, again)
            problems += [problem] if problem else []
    if problems:
        raise BundleError("; ".join(problems))
    return len(pictures)


def recorded_codes(jobs: Path) -> dict[str, str]:
    """Return the digest of the code that drew each figure, as far as it is recorded."""
    recorded = json.loads(jobs.read_text(encoding="utf-8"))["jobs"]
    return {
        job["place"]: job["code"]
        for job in recorded
        if job["rule"] == "render_figure" and "code" in job and "place" in job
    }


def warn_of_other_code(figure: str, codes: Mapping[str, str]) -> None:
    """Say so if this checkout's notebook, or what it imports, is not what drew the figure."""
    notebook = ROOT / "notebooks" / f"{figure}.ipynb"
    here = source_digest(RUNNER, notebook, source=ROOT / "src")
    if codes.get(figure) != here:
        log.warning("%s: drawn with this checkout's notebook, which is not the run's", figure)


def draw(
    figure: str, spec: Mapping[str, Any], config: Mapping[str, Any], scratch: Path, results: Path
) -> str | None:
    """Draw a figure as the workflow does; return what went wrong, or None."""
    outputs = {kind: str(results / "figures" / f"{figure}.{kind}") for kind in ("pdf", "png")}
    tables = tables_of(spec, config["training"] or {}, str(results / "tables"))
    values = parameters(spec, config, tables=tables, **outputs)
    command = [sys.executable, str(RUNNER), str(ROOT / "notebooks" / f"{figure}.ipynb")]
    command += ["--parameters", *to_words(values)]
    command += ["--output", "executed.ipynb", "--failed", "failed.ipynb"]
    command += ["--outputs", *outputs.values()]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=scratch, env=environment, text=True, capture_output=True)
    last = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
    return f"{figure}: cannot be drawn: {last[0]}" if done.returncode else None


def compared(figure: str, archived: Path, again: Path) -> str | None:
    """Return how a picture that was drawn again differs from the archived one, or None."""
    try:
        found = images.difference(archived, again)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        return f"{figure}: no picture that can be compared ({one_line(error)})"
    if found.tolerable:
        log.info("%s: the same (largest difference %d of 255)", figure, found.levels)
        return None
    if not found.same_size:
        return f"{figure}: comes out in another size"
    return f"{figure}: comes out different in {found.share:.2%} of its pixels"

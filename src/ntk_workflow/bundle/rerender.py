"""Draw the figures of an unpacked bundle again, from its tables alone, and compare the pictures."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import scratch_folder
from ntk_workflow.bundle import BundleError
from ntk_workflow.cli import logger
from ntk_workflow.config import read_yaml
from ntk_workflow.figures.parameters import parameters, tables_of
from ntk_workflow.named_values import to_words
from ntk_workflow.provenance.digests import source_digest

ROOT = Path(__file__).resolve().parents[3]
RUNNER = ROOT / "scripts" / "run_notebook.py"
OTHER_CODE = "%s: drawn with this checkout's notebook, which is not the run's"

LEVELS = 8
"""Differences of a colour channel, of 255, that are passed over.

Matplotlib brings its own rasteriser, font renderer and fonts. Another processor rounds coordinates
differently in their last bits, which shifts how an edge is smoothed by a level or two.
"""

SHARE = 1e-5
"""Share of pixels that may differ by more: a handful, less than any marker or letter has.

One kappa of `liu2023relu/fig2_conditioning_vs_depth` that is off by 1 % shows in 77 times as many.
"""

POINTS = 0.05
"""Difference of a coordinate in a PDF, of 1/72 inch, that is passed over."""

log = logger(__file__)


def require_same_figures(folder: Path, run: str) -> int:
    """Return how many figures were drawn again and are the same.

    ``folder`` has the bundle's payload; the notebooks that run are this checkout's, never the
    bundle's. Where the run's were others, the log says so.

    Raises:
        BundleError: for figures that cannot be drawn, or come out different.
    """
    results = Path("results", run)
    config = read_yaml(folder / results / "record/config.yaml")
    known = read_yaml(ROOT / "notebooks/figures.yaml")
    jobs = json.loads((folder / results / "record/jobs.json").read_text(encoding="utf-8"))["jobs"]
    codes = {job.get("place"): job.get("code") for job in jobs if job["rule"] == "render_figure"}
    pictures = sorted((folder / results / "figures").rglob("*.png"))
    problems = []
    with scratch_folder() as scratch:
        shutil.copytree(folder / results / "tables", scratch / results / "tables")
        for picture in pictures:
            figure = picture.relative_to(folder / results / "figures").with_suffix("").as_posix()
            if figure not in known:
                problems.append(f"{figure}: this checkout has no such figure")
                continue
            notebook = ROOT / "notebooks" / f"{figure}.ipynb"
            if codes.get(figure) != source_digest(RUNNER, notebook, source=ROOT / "src"):
                log.warning(OTHER_CODE, figure)
            again = scratch / results / "figures" / f"{figure}.png"
            problem = draw(figure, known[figure], config, scratch, results)
            problem = problem or compared(figure, picture, again)
            problem = problem or _compared_pdfs(*(p.with_suffix(".pdf") for p in (picture, again)))
            problems += [f"{figure}: {problem}"] if problem else []
    if problems:
        raise BundleError("; ".join(problems))
    return len(pictures)


def draw(
    figure: str, spec: Mapping[str, Any], config: Mapping[str, Any], scratch: Path, results: Path
) -> str | None:
    """Draw a figure as the workflow does; return what went wrong, or None."""
    outputs = {kind: str(results / "figures" / f"{figure}.{kind}") for kind in ("pdf", "png")}
    tables = tables_of(spec, config["training"] or {}, str(results / "tables"))
    values = parameters(spec, config, tables=tables, **outputs)
    command = [sys.executable, str(RUNNER), str(ROOT / "notebooks" / f"{figure}.ipynb")]
    command += ["--parameters", *to_words(values), "--outputs", *outputs.values()]
    command += ["--output", "executed.ipynb", "--failed", "failed.ipynb"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=scratch, env=environment, text=True, capture_output=True)
    last = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
    return f"cannot be drawn: {last[0]}" if done.returncode else None


def _compared_pdfs(archived: Path, again: Path) -> str | None:
    """Return that a PDF draws something else than the same figure drawn again, or None."""
    if not again.is_file() or filecmp.cmp(archived, again, shallow=False):
        return None
    try:
        a, b = _drawing(archived), _drawing(again)
    except (PyPdfError, LookupError, ValueError, TypeError, AttributeError) as error:
        return f"no PDF that can be compared ({one_line(error)})"
    same = len(a) == len(b) and all(map(_same_word, a, b))
    return None if same else "comes out different as PDF"


def _drawing(path: Path) -> list[bytes]:
    """Return the words that draw a page and the forms on it, such as markers and letters."""
    page: Any = PdfReader(path).pages[0]
    forms = page["/Resources"].get("/XObject", {})
    streams = [page.get_contents(), *(forms[name].get_object() for name in sorted(forms))]
    return [word for stream in streams for word in stream.get_data().split()]


def _same_word(a: bytes, b: bytes) -> bool:
    try:
        return a == b or abs(float(a) - float(b)) < POINTS
    except ValueError:
        return False


def compared(figure: str, archived: Path, again: Path) -> str | None:
    """Return how a picture that was drawn again differs from the archived one, or None."""
    try:
        with Image.open(archived) as one, Image.open(again) as other:
            if one.size != other.size:  # before a large one is unpacked
                return "comes out in another size"
        pictures = (Image.open(path).convert("RGBA") for path in (archived, again))
        a, b = (np.asarray(picture, dtype=np.int16) for picture in pictures)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        return f"no picture that can be compared ({one_line(error)})"
    if a.shape != b.shape:
        return "comes out in another size"
    change = np.abs(a - b).max(axis=2)
    share = float((change > LEVELS).mean())
    if share > SHARE:
        return f"comes out different in {share:.2%} of its pixels"
    log.info("%s: the same (largest difference %d of 255)", figure, change.max())
    return None

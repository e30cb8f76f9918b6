"""The page that meets who opens a bundle."""

from __future__ import annotations

_PAGE = """\
# {title}: the run {run}

The results of one run, with the record of how they were made and the workflow that made them.
`ro-crate-metadata.json` describes every file (an RO-Crate); the folder around this one is a BagIt
bag, so that any BagIt tool can check that the files are whole. In a checkout of the workflow, whose
source is also in `workflow/`, this checks more, and draws the figures again from the tables:

    make verify BUNDLE={run}.zip
    python scripts/verify_bundle.py {run}.zip --render

`results/{run}/record/` says what was asked for (`config.yaml`), with which software
(`versions.json`), and for every job what it read, wrote and ran (`jobs.json`). Data are not here:
`ro-crate-metadata.json` has their addresses and checksums.
"""


def text(title: str, run: str) -> str:
    """Return the page of a run's bundle, in Markdown."""
    return _PAGE.format(title=title, run=run)

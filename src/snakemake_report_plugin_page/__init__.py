"""The report as one page: explorer, claims, figures, tables and jobs with one navigation.

`snakemake --reporter page --report-page-path results/demo/report.html`, as the Makefile calls it.
Snakemake's own `--report` lists the same files one by one; links between them lead nowhere.

Every Snakemake imports this module, whatever it runs, so the packages are imported in functions.
"""

import base64
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_report_plugins.interfaces import FileRecordInterface
from snakemake_interface_report_plugins.reporter import ReporterBase
from snakemake_interface_report_plugins.settings import ReportSettingsBase


@dataclass
class ReportSettings(ReportSettingsBase):  # type: ignore[misc]
    """The options of the command line, which begin with --report-page-."""

    path: Optional[Path] = field(  # noqa: UP045, Snakemake calls what stands in the brackets
        default=None,
        metadata={"help": "The report to write (.html).", "env_var": False, "required": True},
    )


class Reporter(ReporterBase):  # type: ignore[misc]
    """Writes the report; Snakemake finds this class by its name."""

    settings: ReportSettings

    def render(self) -> None:
        from ntk_conditioning.files import write_text
        from ntk_workflow.pages.rendering import render

        paths = [record.path for _, _, record in self._records()]
        root = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
        parts: dict[str, list[dict[str, Any]]] = {}
        for category, subcategory, record in self._records():
            part = re.sub(r"^\d+ ", "", category)  # Snakemake's own report sorts by name
            parts.setdefault(part, []).append(_entry(record, root, subcategory))
        text = render(
            "report.html.j2",
            title=f"Run {root.name}",
            description=self.workflow_description,
            parts=parts,
            verdicts=_verdicts(root / "tables/claims.parquet"),
            rules=self._rules(),
        )
        assert self.settings.path is not None  # it is required
        write_text(self.settings.path, text)

    def _records(self) -> list[tuple[str, str, FileRecordInterface]]:
        """Return all results with their categories, sorted."""
        found = [
            (category.name, subcategory.name, record)
            for category, subcategories in self.results.items()
            for subcategory, records in subcategories.items()
            for record in records
        ]
        return sorted(found, key=lambda it: (it[0], str(it[2].path)))

    def _rules(self) -> list[dict[str, Any]]:
        """Return every rule with what it reads, makes and calls, and its jobs; longest first."""
        seconds = defaultdict(list)
        for job in self.jobs:
            seconds[str(job.rule)].append(max(0.0, job.endtime - job.starttime))
        rules = [
            {"name": rule.name, "input": rule.input, "output": rule.output, "calls": rule.source}
            | {"seconds": seconds[rule.name]}
            for rule in self.rules.values()
        ]
        return sorted(rules, key=lambda rule: -sum(rule["seconds"]))


def _entry(record: FileRecordInterface, root: Path, subcategory: str) -> dict[str, Any]:
    """Return what the page shows of a file: a picture, or a page of its own."""
    entry = {"id": str(record.path.relative_to(root).with_suffix("")), "caption": record.caption}
    if record.mime == "text/html":
        text = record.path.read_text(encoding="utf-8")
        return entry | {"title": ", ".join(record.labels.values()), "page": text}
    data = base64.b64encode(record.path.read_bytes()).decode()
    return entry | {"title": subcategory, "image": f"data:{record.mime};base64,{data}"}


def _verdicts(path: Path) -> dict[str, dict[str, tuple[int, str]]]:
    """Return of every paper how often each verdict was given; nothing if the run has no claims."""
    if not path.exists():
        return {}
    from ntk_conditioning import tables
    from ntk_workflow.claims.pages import counts, outcome

    outcomes: defaultdict[str, list[str]] = defaultdict(list)
    for row in tables.read(path, "claims").select(["paper", "kind", "verdict"]).to_pylist():
        outcomes[row["paper"]].append(outcome(row["kind"], row["verdict"]))
    return {paper: counts(each) for paper, each in outcomes.items()}

"""The figures of a run, its claims and its pages."""

import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from ntk_workflow.claims import papers as claim_files
from ntk_workflow.config import did_you_mean
from ntk_workflow.figures import listing, parameters
from ntk_workflow.named_values import to_words
from ntk_workflow.plan.run import STUDY_OF, ConfigError, Run, content, refuse

#: The tables that the explorer shows.
EXPLORED = (
    *("spectra", "conditioning", "angles", "training", "learning_rates", "predictions"),
    *("phase", "phase_laws", "claims"),
)


class Figures(Run):
    """What the rules of figures, claims and pages need."""

    @cached_property
    def drawn_figures(self) -> list[str]:
        """The figures that `all` draws: those of the config whose studies are not switched off."""
        return [name for name in self.config["figures"] if not self._off(name)]

    def _off(self, figure: str) -> list[str]:
        """Return the studies that a figure needs and that are switched off."""
        spec = self.figures[figure]
        needed = [STUDY_OF[table] for table in spec["tables"] if table in STUDY_OF]
        off = [study for study in needed if not self.is_on(study)]
        patterns = spec.get("experiments")
        shown = [name for each in patterns or [] for name in fnmatch.filter(self.experiments, each)]
        if patterns and not fnmatch.filter(shown, patterns[0]):
            off.append(f"training.{patterns[0].removesuffix('*')}")
        for table, key in parameters.ASKED_FOR.items():
            if table in spec["tables"] and not any(self.experiments[each][key] for each in shown):
                off.append(f"training with {key}")
        return list(dict.fromkeys(off))

    def suggestion(self, w: Any) -> list[str]:
        """Refuse a target that does not exist, with those that are like it."""
        targets = ["all", "bundle", "claims", *map(listing.target, self.figures)]
        similar = " or ".join(name for name in targets if w.target in name)
        advice = f"did you mean {similar}?" if similar else did_you_mean(w.target, targets)
        message = f"no target {w.target!r}; {advice}"
        if Path(w.target).exists():  # an input of another rule
            raise ConfigError(message)
        refuse(message)

    def figure_files(self, figure: str) -> list[str]:
        """Return what a figure consists of."""
        return [self.path("figures", f"{figure}.{kind}") for kind in ("pdf", "png")]

    def figure_tables(self, w: Any) -> list[str]:
        """Return the tables that a figure's notebook reads."""
        if w.figure not in self.figures:
            refuse(f"no figure {w.figure!r}; {did_you_mean(w.figure, self.figures)}")
        if off := self._off(w.figure):
            refuse(f"{w.figure} needs {' and '.join(off)}, which the config lacks or switches off")
        for key, choices in self.figures[w.figure].get("needs", {}).items():
            have = self.config[key] if isinstance(self.config[key], list) else [self.config[key]]
            if not set(choices) & set(have):
                refuse(
                    f"{w.figure} needs {' or '.join(choices)} in "
                    f"{key!r}, which is {self.config[key]!r}; add it there or remove the figure"
                )
        return [path for paths in self._tables_of(w.figure).values() for path in paths]

    def _tables_of(self, figure: str) -> dict[str, list[str]]:
        """Return the files of each table of a figure; trainings have one for each experiment."""
        return parameters.tables_of(self.figures[figure], self.experiments, self.path("tables"))

    def figure_parameters(self, w: Any) -> list[str]:
        """Return a notebook's parameters as NAME=VALUE: its tables, config values and files."""
        pdf, png = map(self.placed, self.figure_files(w.figure))
        spec, tables = self.figures[w.figure], self._tables_of(w.figure)
        tables = {name: [*map(self.placed, paths)] for name, paths in tables.items()}
        values = parameters.parameters(spec, self.config, tables=tables, pdf=pdf, png=png)
        return to_words(values)

    def caption(self, w: Any) -> str:
        """Return the file of a figure's caption."""
        return f"{self.home}notebooks/{w.figure}.rst"

    @cached_property
    def collected(self) -> dict[str, str]:
        """The figures that are collected for a paper, by the names of their files there."""
        return {listing.target(figure): figure for figure in self.drawn_figures}

    def paper_figures(self, w: Any) -> list[str]:
        """Return the PDFs that are collected, as NAME=FILE."""
        figures = self.collected.items()
        return [f"{name}={self.placed(self.figure_files(figure)[0])}" for name, figure in figures]

    def captions(self, w: Any) -> list[str]:
        """Return their captions, as NAME=FILE."""
        return [
            f"{name}={self.home}notebooks/{figure}.rst" for name, figure in self.collected.items()
        ]

    def caption_content(self, w: Any) -> list[str]:
        """Return digests of captions: they are no inputs, so that touching them does nothing."""
        return [content(str(self.source / f"notebooks/{f}.rst")) for f in self.drawn_figures]

    def papers_with_experiments(self, w: Any) -> list[str]:
        """Return the papers that have numerical experiments of their own."""
        self.require("claim_experiments")
        return claim_files.with_experiments(self.papers)

    def paper_files(self, w: Any) -> list[str]:
        """Return the files of the papers' claims."""
        self.require("papers")
        return [f"{self.home}papers/{name}.yaml" for name in self.papers]

    def claimed_tables(self, w: Any) -> list[str]:
        """Return the tables that claims are about; claims on a study that is off are not tested."""
        claimed = claim_files.tables(self.papers)
        return [self.path("tables", f"{name}.parquet") for name in claimed if name in self.tables]

    def explored_tables(self, w: Any) -> list[str]:
        """Return the tables that the explorer shows."""
        return [self.path("tables", f"{name}.parquet") for name in EXPLORED if name in self.tables]

    @cached_property
    def pages(self) -> list[str]:
        """The pages of the run: the explorer, its claims, its small tables, config and versions."""
        shown = [page for page in listing.PAGES if page == "run" or page in self.tables]
        pages = [self.path("pages", f"{page}.html") for page in shown]
        claims = [self.path("claims.html")] if self.papers else []
        return [self.path("explorer.html"), *claims, *pages]

    def page_sources(self, w: Any) -> list[str]:
        """Return what a page of the report is made from."""
        if w.page == "run":
            return [self.path("record", name) for name in ("config.yaml", "versions.json")]
        return [self.path("tables", f"{w.page}.parquet")]

"""What a run consists of: its rows, trainings, tables and figures, from a checked config.

A `Plan` is made once from the config, in rules/common.smk. Its methods are the input and parameter
functions of the rules; those that take ``w`` are given a job's wildcards. A study that has mistakes
stops the jobs that belong to it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.networks.plugins import place_of
from ntk_workflow import catalogue
from ntk_workflow import config as config_files
from ntk_workflow.checks import Known, used_datasets
from ntk_workflow.claims import papers as claim_files
from ntk_workflow.config import (
    canonical,
    did_you_mean,
    read_yaml,
    schema_errors,
    with_defaults,
)
from ntk_workflow.figures.parameters import TRAINED_TABLES, TRAINING_TABLES, has_table
from ntk_workflow.named_values import to_words
from ntk_workflow.plan.figures import Figures
from ntk_workflow.plan.rows import AXES, Rows
from ntk_workflow.plan.run import BUILT_IN, TABLES, ConfigError
from ntk_workflow.plan.trainings import Trainings
from ntk_workflow.provenance import digests, places, versions

if TYPE_CHECKING:
    from ntk_conditioning.networks.activations import DualErrors
    from ntk_conditioning.networks.own import OwnModel

#: Keys that only say where files are: not recorded, and no result depends on them.
PLACES = ("data_dir", "mirror")

#: The workflow's source, as it is bundled. Links stay outside: a bag has none.
SOURCE = (
    *("CITATION.cff", "LICENSE", "Makefile", "README.md", "Snakefile", "config", "config.yaml"),
    *("datasets.yaml", "envs", "notebooks", "papers", "profiles", "pyproject.toml", "resources"),
    *("rules", "schemas", "scripts", "src"),
)

__all__ = ["ConfigError", "Plan"]


class Plan(Rows, Trainings, Figures):
    """A run, from its config, with what is recorded and bundled of it."""

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        source: str | Path,
        home: str = "",
        placed: Callable[[str], str] = str,
        checked: bool = False,
    ) -> Plan:
        """Return the plan of a config; for the others see `Run`.

        Files that the config or a catalogue names are in the working folder or else in ``source``.

        All was ``checked`` by another process, if it starts this one for its jobs.

        Raises:
            ConfigError: for unknown keys, values of a wrong type, and files that cannot be read.
        """
        source = Path(source)
        schema = read_yaml(source / "schemas/config.schema.yaml")
        if lines := schema_errors(config, schema):
            raise ConfigError("\n".join(lines))
        given = canonical(with_defaults(config, schema))
        config = located(given, home)
        figures = read_yaml(source / "notebooks/figures.yaml")
        entries, lines = catalogue.load_catalogues(
            config["catalogues"], read_yaml(source / "schemas/datasets.schema.yaml")
        )
        entries = {name: catalogue.located(entry, home) for name, entry in entries.items()}
        dual_errors, problems = own_activations(config["activation_files"], checked=checked)
        models, more = own_networks(config["models"], taken={*MODELS, *entries})
        lines += problems + more
        papers: dict[str, Any] = {}
        try:
            of = {"folder": f"{home}papers", "tables": TABLES, "figures": figures}
            papers = claim_files.read(config["papers"] or (), **of)
        except ValueError as error:
            lines += str(error).splitlines()
        for index, name in enumerate(config["figures"]):
            if name not in figures:
                advice = did_you_mean(name, figures)
                lines.append(f"figures[{index}]: unknown figure {name!r}; {advice}")
        used = [name for name in used_datasets(config) if name in entries]
        lines += catalogue.file_errors({name: entries[name] for name in used})
        if lines:
            raise ConfigError("\n".join(lines))
        known = None if checked else Known(config, entries, models, dual_errors)
        kept: dict[str, Any] = {"home": home, "placed": placed, "given": given, "models": models}
        return cls(config, entries, figures, papers, source, known, **kept)

    def libraries(self, w: Any) -> list[str]:
        """Return the versions of the libraries that matter."""
        return [f"{name} {version}" for name, version in versions.libraries().items()]

    def given_config(self, w: Any) -> list[str]:
        """Return the config without what only says where files are, as KEY=VALUE."""
        keys = sorted(set(self.given) - set(PLACES))
        return to_words({key: self.given[key] for key in keys})

    def changed_keys(self) -> list[str]:
        """Return the keys that differ in the record of a run of this name, if there is one."""
        record = Path(self.placed(self.path("record/config.yaml")))
        recorded = canonical(read_yaml(record)) if record.exists() else {}
        here = {key: places.published(self.given[key], Path.cwd()) for key in self.given}
        return [key for key in here if key in recorded and here[key] != recorded[key]]

    def all_code(self, w: Any) -> str:
        """Return the digest of all that computes: programs, notebooks, the user's own files."""
        programs = sorted(str(path) for path in self.source.glob("scripts/*.py"))
        notebooks = [str(self.source / f"notebooks/{figure}.ipynb") for figure in self.figures]
        return self.digest(*programs, *notebooks, *self.plugin_files)

    def results(self, w: Any) -> list[str]:
        """Return the results that are bundled; figures come with the notebooks that drew them."""
        parts = product(TRAINING_TABLES if self.experiments else (), self.experiments)
        files = [*(f"tables/{table}.parquet" for table in self.tables)]
        having = [part for part in parts if has_table(part[0], self.experiments[part[1]])]
        files += [f"tables/{table}/{name}.parquet" for table, name in having]
        files += [f"notebooks/{figure}.ipynb" for figure in self.drawn_figures]
        files += [f"claims.{kind}" for kind in ("md", "html")] if self.papers else []
        files += ["explorer.html"]
        files += [f"record/{name}" for name in ("config.yaml", "versions.json")]
        drawn = [file for figure in self.drawn_figures for file in self.figure_files(figure)]
        return [*map(self.path, files), *drawn]

    def all_rows(self, w: Any) -> list[str]:
        """Return all rows and trainings of the run, of which its tables are made."""
        tables = [table for table in AXES if table in self.tables]
        rows = [path for table in tables for path in self.row_files(table)]
        for name, table in product(self.experiments, TRAINED_TABLES):
            rows += self.training_files(table, name)
        return rows

    @property
    def root(self) -> str:
        """The option that says what paths of the run begin with where it is a module's."""
        return f"--root={self.placed('')}"

    @cached_property
    def plugin_files(self) -> list[str]:
        """The Python files of the user's activations and networks, each once."""
        networks = [entry["file"] for entry in self.config["models"].values()]
        return list(dict.fromkeys([*self.config["activation_files"], *networks]))

    def own_files(self, files: Sequence[str]) -> list[str]:
        """Return those of the user's files that are not part of the source."""
        source = [self.source / name for name in SOURCE]
        paths = {file: Path(file).absolute() for file in files}
        return [file for file in files if not {paths[file], *paths[file].parents} & {*source}]

    def source_files(self, w: Any) -> list[str]:
        """Return the files and folders of the workflow's source, with the user's programs."""
        own = self.own_files(self.plugin_files)
        return [*(f"{self.home}{name}" for name in SOURCE), *own]

    def source_content(self, w: Any) -> str:
        """Return a digest of the bundled source: to touch it does nothing, to change it counts."""
        catalogues = self.own_files(self.config["catalogues"])
        return digests.folder_digest([*self.source_files(w), *catalogues])


def located(config: Mapping[str, Any], home: str) -> dict[str, Any]:
    """Return a config with the files that it names where they are, see `config.located`."""
    where = partial(config_files.located, home=home)
    lists = {key: [*map(where, config[key])] for key in ("catalogues", "activation_files")}
    models = config["models"].items()
    own = {name: {**entry, "file": where(entry["file"])} for name, entry in models}
    return {**config, **lists, "models": own}


def own_activations(
    files: Sequence[str], *, checked: bool
) -> tuple[dict[str, DualErrors], list[str]]:
    """Import files that register activations; return their errors at infinite width, and mistakes.

    Activations are checked if they are not ``checked``.
    """
    errors, lines = {}, []
    for file in files:
        try:
            activations.load_plugin(file)
        except UserError as error:
            lines.append(f"activation_files: {error}")
    for name in set(activations.names()) - BUILT_IN if not checked else ():
        from ntk_conditioning.duals import soundness  # only where it is needed: torch takes seconds

        sigma = activations.get(name)
        try:
            soundness.require_sound(sigma)
            errors[name] = soundness.dual_errors(sigma)
        except UserError as error:
            lines.append(f"activation_files: {place_of(sigma.function, files)}{error}")
    return errors, lines


def own_networks(
    given: Mapping[str, Mapping[str, str]], *, taken: Collection[str]
) -> tuple[dict[str, OwnModel], list[str]]:
    """Return the networks that a config has functions for, and lines for those it cannot have."""
    models, lines = {}, []
    for name, entry in given.items():
        if name in taken:
            problem = "a built-in network or a dataset has this name; choose another"
            lines.append(f"models.{name}: {problem}")
            continue
        from ntk_conditioning.networks import own  # only where it is needed: torch takes seconds

        try:
            models[name] = own.load(entry["file"], entry["function"])
        except UserError as error:
            lines.append(f"models.{name}: {error}")
    return models, lines

"""The base of a plan: which studies and tables a run has, where its files are, and its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_workflow.checks import GRID, Known, mistakes, used_datasets
from ntk_workflow.claims import papers as claim_files
from ntk_workflow.provenance import digests
from ntk_workflow.settings import words

if TYPE_CHECKING:
    from ntk_conditioning.networks.own import OwnModel

#: The tables that a run may have, each with the studies that it needs.
TABLES = {name: table.studies for name, table in tables.TABLES.items() if table.studies}
#: The study that makes a table, by table; tables of the main grid are made whenever it is there.
STUDY_OF = {name: s[0] for name, s in TABLES.items() if len(s) == 1 and s != (GRID,)}

BUILT_IN = frozenset(activations.names())


class ConfigError(ValueError):
    """A config asks for what cannot be had; a line for each mistake."""


def refuse(message: str) -> NoReturn:
    """End Snakemake in one of its input functions.

    Any other error there means to it that the rule cannot make the file, which does not matter
    where an old one is: it would go on with that, or say that there is nothing to be done.

    Raises:
        SystemExit: with the message.
    """
    raise SystemExit(message)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run, from its config.

    ``source`` is the folder of the workflow, ``known`` what studies are checked by, None where that
    was done before; ``models`` are the networks of the user's own. ``home`` is put before names of
    files of the workflow, and is empty in its own folder; ``placed`` returns where a file of the
    run is for a program: a module's have a prefix, which Snakemake itself puts before inputs.
    ``given`` is the config as it was written.
    """

    config: Mapping[str, Any]
    catalogue: Mapping[str, Mapping[str, Any]]
    figures: Mapping[str, Mapping[str, Any]]
    papers: Mapping[str, Any]
    source: Path
    known: Known | None = None
    models: Mapping[str, OwnModel] = field(default_factory=dict)
    home: str = ""
    placed: Callable[[str], str] = str
    given: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the run's name alone: Snakemake takes a config in braces for wildcards."""
        return f"{type(self).__name__}({self.config['run']})"

    def require(self, study: str) -> None:
        """End the program if a study is switched off or has mistakes."""
        lines = [*mistakes(study, self.known)] if self.known else []
        if study != GRID and not self.section(study):
            lines.append(f"config: {study} is switched off (null), and what was asked for needs it")
        if lines:
            refuse("\n".join(["The configuration has mistakes:", *lines]))

    def section(self, study: str) -> Any:
        """Return a study's part of the config; the main grid has the whole of it."""
        section: Any = self.config
        for key in study.split(".") if study != GRID else ():
            section = (section or {}).get(key)
        return section

    def is_on(self, study: str) -> bool:
        """Return whether anything is to be done for a study."""
        if study == "training":
            return bool(self.experiments)
        idle = study == "claim_experiments" and not claim_files.with_experiments(self.papers)
        return bool(self.section(study)) and not idle

    @cached_property
    def experiments(self) -> dict[str, Mapping[str, Any]]:
        """The experiments with trained networks, by name, so that their order reruns nothing."""
        given = self.config["training"] or {}
        return {name: given[name] for name in sorted(given) if given[name]}

    @cached_property
    def tables(self) -> list[str]:
        """The tables of the run: those whose studies are not switched off."""
        return [name for name, studies in TABLES.items() if all(map(self.is_on, studies))]

    @cached_property
    def used_datasets(self) -> list[str]:
        return used_datasets(self.config)

    def path(self, *parts: str) -> str:
        """Return where a file of the run is."""
        return "/".join(("results", self.config["run"], *parts))

    def plugins(self, *names: str) -> list[str]:
        """Return the files that register activations; none if all are the package's own."""
        built_in = {activations.base_name(name) for name in names} <= BUILT_IN
        return [] if built_in else list(self.config["activation_files"])

    def activation_options(self, *names: str) -> list[str]:
        """Return activations as options, with the files that register those of the user's own."""
        return ["--activation", *names, *(f"--activation-file={f}" for f in self.plugins(*names))]

    def activation(self, w: Any) -> list[str]:
        """Return a job's activation as options."""
        return self.activation_options(w.activation)

    def network_options(self, w: Any) -> list[str]:
        """Return a training's network and activation as options, with files of the user's own."""
        options = ["--model", w.model, *self.activation(w)]
        if w.model in self.models:
            entry = self.config["models"][w.model]
            options += [f"--model-file={entry['file']}", f"--model-function={entry['function']}"]
        return options

    def activations(self, study: str) -> list[str]:
        section = self.section(study) or []
        return list(section if isinstance(section, list) else section["activations"])

    def code(self, *programs: str, study: str = "") -> Callable[[Any], str]:
        """Return a parameter: the digest of programs, what they import, and the user's own files.

        Programs are files of the workflow, and may contain wildcards. Activations and networks are
        those of a study, or a job's.
        """

        def digest(w: Any) -> str:
            names = self.activations(study) if study else [w.get("activation", "relu")]
            paths = [program.format(**dict(w)) for program in programs]
            section = self.section(study) if study else {"models": [w.get("model", "")]}
            models = section.get("models", []) if isinstance(section, Mapping) else []
            return self.code_of(paths, names, models)

        return digest

    def code_of(self, programs: Iterable[str], names: Iterable[str], models: Iterable[str]) -> str:
        """Return the digest of programs as they work with activations and networks."""
        paths = [self.home + program for program in programs]
        own = [self.config["models"][name]["file"] for name in models if name in self.models]
        return self.digest(*paths, *self.plugins(*names), *own)

    @cache  # noqa: B019 one plan lives as long as Snakemake
    def digest(self, *programs: str) -> str:
        return digests.source_digest(*programs, source=self.source / "src")


def options(values: Mapping[str, Any]) -> list[str]:
    """Return values as command-line options, in an order that does not depend on the config's."""
    return [word for key in sorted(values) for word in words(key, values[key])]


@cache
def content(path: str) -> str:
    """Return a digest of a user's file or folder, taken once each time Snakemake starts."""
    return digests.path_digest(path)

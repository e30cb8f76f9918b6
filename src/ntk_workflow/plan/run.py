"""A run: its config, checked, with the studies, tables and files that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.plugins import place_of
from ntk_workflow import catalogue
from ntk_workflow import config as config_files
from ntk_workflow.checks import GRID, Known, mistakes, used_datasets
from ntk_workflow.claims import papers as claim_files
from ntk_workflow.config import canonical, did_you_mean, read_yaml, schema_errors, with_defaults

if TYPE_CHECKING:
    from ntk_conditioning.networks.activations import DualErrors
    from ntk_conditioning.networks.own import OwnModel

#: The tables that a run may have, each with the studies that it needs.
TABLES = {name: table.studies for name, table in tables.TABLES.items() if table.studies}
#: The study that makes a table, by table; tables of the main grid are made whenever it is there.
STUDY_OF = {name: s[0] for name, s in TABLES.items() if len(s) == 1 and s != (GRID,)}

BUILT_IN = frozenset(activations.names())


class ConfigError(ValueError):
    """A config asks for what cannot be had; a line for each mistake."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run, from its config.

    ``source`` is the folder of the workflow; ``home`` is put before names of its files, and is
    empty in its own folder; ``placed`` returns where a file of the run is for a program: a module's
    have a prefix, which Snakemake itself puts before inputs. ``given`` is the config as it was
    written, ``models`` are the networks of the user's own, and ``known`` is what studies are
    checked by, None where another process has done that.
    """

    config: Mapping[str, Any]
    given: Mapping[str, Any]
    catalogue: Mapping[str, Mapping[str, Any]]
    figures: Mapping[str, Mapping[str, Any]]
    papers: Mapping[str, Any]
    models: Mapping[str, OwnModel]
    known: Known | None
    source: Path
    home: str = ""
    placed: Callable[[str], str] = str

    def path(self, *parts: str) -> str:
        """Return where a file of the run is."""
        return "/".join(("results", self.config["run"], *parts))

    def section(self, study: str) -> Any:
        """Return a study's part of the config, None if it is off; that of the main grid is all."""
        section: Any = self.config
        for key in study.split(".") if study != GRID else ():
            section = (section or {}).get(key)
        return section

    @cached_property
    def experiments(self) -> dict[str, Mapping[str, Any]]:
        """The experiments with trained networks, by name, so that their order reruns nothing."""
        given = self.config["training"] or {}
        return {name: given[name] for name in sorted(given) if given[name]}

    @cached_property
    def tables(self) -> list[str]:
        """The tables of the run: those whose studies are not switched off."""
        have = {key for key in self.config if self.config[key]} | {GRID}
        if not self.experiments:
            have.discard("training")
        return [name for name, studies in TABLES.items() if have.issuperset(studies)]


def load(
    config: Mapping[str, Any],
    *,
    source: str | Path,
    home: str = "",
    placed: Callable[[str], str] = str,
    checked: bool = False,
) -> Run:
    """Return the run of a config; for the others see `Run`.

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
    models, more = own_networks(config["models"], taken=entries)
    lines += problems + more
    papers: dict[str, Any] = {}
    try:
        papers = claim_files.read(config["papers"] or (), folder=f"{home}papers", figures=figures)
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
    return Run(config, given, entries, figures, papers, models, known, source, home, placed)


def located(config: Mapping[str, Any], home: str) -> dict[str, Any]:
    """Return a config with the files that it names where they are, see `config.located`."""
    where = partial(config_files.located, home=home)
    lists = {key: [*map(where, config[key])] for key in ("catalogues", "activation_files")}
    models = {name: {**own, "file": where(own["file"])} for name, own in config["models"].items()}
    return {**config, **lists, "models": models}


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
        from ntk_conditioning.networks import architectures, own  # torch takes seconds

        if name in {*architectures.MODELS, *taken}:
            problem = "a built-in network or a dataset has this name; choose another"
            lines.append(f"models.{name}: {problem}")
            continue
        try:
            models[name] = own.load(entry["file"], entry["function"])
        except UserError as error:
            lines.append(f"models.{name}: {error}")
    return models, lines


def refuse(message: str) -> NoReturn:
    """End Snakemake in one of its input functions.

    Any other error there means to it that the rule cannot make the file, which does not matter
    where an old one is: it would go on with that, or say that there is nothing to be done.

    Raises:
        SystemExit: with the message.
    """
    raise SystemExit(message)


def require(run: Run, study: str) -> None:
    """End the program if a study is switched off or has mistakes."""
    lines = [*mistakes(study, run.known)] if run.known else []
    if study != GRID and not run.section(study):
        lines.append(f"config: {study} is switched off (null), and what was asked for needs it")
    if lines:
        refuse("\n".join(["The configuration has mistakes:", *lines]))


def studies(run: Run) -> list[str]:
    """Return the studies that are on and have rules of their own, rules/studies/{study}.smk."""
    names = sorted(path.stem for path in run.source.glob("rules/studies/*.smk"))
    return [name for name in names if run.config.get(f"{name}_study", run.config.get(name))]


def study_module(study: str) -> Any:
    """Return the module of a study, by its key in the config: its checks and sizes."""
    return import_module(f"ntk_workflow.studies.{study.removesuffix('_study')}")


def own_activation_files(run: Run, names: Collection[str]) -> list[str]:
    """Return the files that register activations; none if all ``names`` are the package's own."""
    built_in = {activations.base_name(name) for name in names} <= BUILT_IN
    return [] if built_in else list(run.config["activation_files"])


def activation_options(run: Run, names: Collection[str]) -> list[str]:
    """Return activations as options, with the files that register those of the user's own."""
    files = own_activation_files(run, names)
    return ["--activation", *names, *(f"--activation-file={file}" for file in files)]


def network_options(run: Run, model: str) -> list[str]:
    """Return a training's network as options, with the file of the user's own."""
    options = ["--model", model]
    if model in run.models:
        own = run.config["models"][model]
        options += [f"--model-file={own['file']}", f"--model-function={own['function']}"]
    return options


def image(run: Run, dataset: str) -> tuple[int, int, int] | None:
    """Return height, width and colours of a dataset's samples, None if they are no images."""
    return catalogue.known_image(run.catalogue[dataset])

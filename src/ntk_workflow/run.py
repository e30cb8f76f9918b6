"""A run: its config, read and checked, with the tables and files that it has."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.user_files import place_of
from ntk_workflow import catalogue
from ntk_workflow.claims import papers as claim_files
from ntk_workflow.config import (
    canonical,
    did_you_mean,
    located,
    read_yaml,
    redact_paths,
    schema_errors,
    with_defaults,
)

#: The study of kernels and angles whose keys stand at the top of the config.
GRID = "grid"
#: The tables that a run may have, each with the studies that it needs.
TABLES = {name: table.studies for name, table in tables.TABLES.items() if table.studies}
#: The study that makes a table, by table; tables of the main grid are made whenever it is there.
STUDY_OF = {name: s[0] for name, s in TABLES.items() if len(s) == 1 and s != (GRID,)}
#: Stands for the entry of a dataset that no catalogue has.
UNKNOWN = {"reader": ""}
BUILT_IN = frozenset(activations.names())


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run, from its config; `load` makes it.

    ``source`` is the folder of the workflow; ``home`` is put before names of its files, and is
    empty in its own folder; ``with_prefix`` returns where a program finds a file of the run:
    Snakemake itself puts a module's prefix before inputs. ``given`` is the config as it was
    written, ``models`` are the user's networks, and ``dual_errors`` are of activations.
    All of it was ``checked`` by another process, if it started this one for its jobs.
    """

    config: Mapping[str, Any]
    given: Mapping[str, Any]
    catalogue: Mapping[str, Mapping[str, Any]]
    figures: Mapping[str, Mapping[str, Any]]
    papers: Mapping[str, Any]
    models: Mapping[str, Any]
    dual_errors: Mapping[str, Any]
    source: Path
    home: str = ""
    with_prefix: Callable[[str], str] = str
    checked: bool = False

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

    def setting(self, key: str, dataset: str) -> Any:
        """Return a value of the main grid as it holds for one dataset."""
        return self.config["overrides"].get(dataset, {}).get(key, self.config[key])

    def shape(self, dataset: str) -> tuple[int | None, int | None]:
        """Return all samples and features of a dataset; None for what only its files tell."""
        speech = self.config["speech"] | self.config["overrides"].get(dataset, {})
        return catalogue.shape_of(self.catalogue.get(dataset, UNKNOWN), speech)

    def image(self, dataset: str) -> tuple[int, int, int] | None:
        """Return height, width and colours of a dataset's samples, None if they are no images."""
        return catalogue.known_image(self.catalogue.get(dataset, UNKNOWN))


def load(config: Mapping[str, Any], source: Path, home: str = "", **where: Any) -> Run:
    """Return the run of a config; for the others see `Run`. `UserError` has a line a mistake."""
    schema = read_yaml(source / "schemas/config.schema.yaml")
    if lines := schema_errors(config, schema):
        raise UserError("\n".join(lines))
    given = canonical(with_defaults(config, schema))
    config = located(given, home)
    figures = read_yaml(source / "notebooks/figures.yaml")
    entries, lines = catalogue.load_catalogues(
        config["catalogues"], read_yaml(source / "schemas/datasets.schema.yaml")
    )
    entries = located(entries, home)
    errors, problems = user_activations(config["activation_files"], where.get("checked", False))
    models, more = user_networks(config["models"], taken=entries)
    papers, others = claim_files.read(config["papers"] or (), f"{home}papers", figures)
    lines += problems + more + others
    for index, name in enumerate(config["figures"]):
        if name not in figures:
            advice = did_you_mean(name, figures)
            lines.append(f"figures[{index}]: unknown figure {name!r}; {advice}")
    if lines:
        raise UserError("\n".join(lines))
    return Run(config, given, entries, figures, papers, models, errors, source, home, **where)


def changed_keys(run: Run) -> list[str]:
    """Return the keys that differ in the record of a run of this name, if there is one."""
    record = Path(run.with_prefix(run.path("record/config.yaml")))
    recorded = canonical(read_yaml(record)) if record.exists() else {}
    here = {key: redact_paths(run.given[key], Path.cwd()) for key in run.given}
    return [key for key in here if key in recorded and here[key] != recorded[key]]


def user_activations(
    files: Sequence[str], checked: bool
) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Import files that register activations; return errors at infinite width, and mistakes."""
    errors, lines = {}, []
    for file in files:
        try:
            activations.load_plugin(file)
        except UserError as error:
            lines.append(f"activation_files: {error}")
    for name in set(activations.names()) - BUILT_IN if not checked else ():
        from ntk_conditioning.duals import activation_checks  # torch takes seconds

        sigma = activations.get(name)
        try:
            activation_checks.require_sound(sigma)
            errors[name] = activation_checks.dual_errors(sigma)
        except UserError as error:
            lines.append(f"activation_files: {place_of(sigma.function, files)}{error}")
    return errors, lines


def user_networks(
    given: Mapping[str, Mapping[str, str]], *, taken: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the networks that a config has functions for, and lines for those it cannot have."""
    models, lines = {}, []
    for name, entry in given.items():
        from ntk_conditioning.networks import architectures, user_models  # torch takes seconds

        try:
            if name in {*architectures.MODELS, *taken}:
                raise UserError("a built-in network or a dataset has this name; choose another")
            models[name] = user_models.load(entry["file"], entry["function"])
        except UserError as error:
            lines.append(f"models.{name}: {error}")
    return models, lines


def used_datasets(config: Mapping[str, Any]) -> list[str]:
    """Return the datasets of a run, each once."""
    studies = [config[key] for key in config if key.endswith("_study")]
    sections = [config, *studies, *(config["training"] or {}).values()]
    return list(dict.fromkeys(chain(*(part.get("datasets", ()) for part in sections if part))))


def refuse(message: str) -> NoReturn:
    """End Snakemake in an input function: after any other error it goes on with an old file."""
    raise SystemExit(message)

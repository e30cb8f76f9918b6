"""A run: its config, checked, with the tables and files that it has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from ntk_conditioning import tables
from ntk_workflow import catalogue

#: The study of kernels and angles whose keys stand at the top of the config.
GRID = "grid"
#: The tables that a run may have, each with the studies that it needs.
TABLES = {name: table.studies for name, table in tables.TABLES.items() if table.studies}
#: The study that makes a table, by table; tables of the main grid are made whenever it is there.
STUDY_OF = {name: s[0] for name, s in TABLES.items() if len(s) == 1 and s != (GRID,)}
#: Stands for the entry of a dataset that no catalogue has.
UNKNOWN = {"reader": ""}


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run, from its config; `loading.load` makes it.

    ``source`` is the folder of the workflow; ``home`` is put before names of its files, and is
    empty in its own folder; ``with_prefix`` returns where a program finds a file of the run:
    Snakemake itself puts a module's prefix before inputs. ``given`` is the config as it was
    written, ``models`` are the networks of the user's own, and ``dual_errors`` are of activations.
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


def used_datasets(config: Mapping[str, Any]) -> list[str]:
    """Return the datasets of a run, each once."""
    studies = [config[key] for key in config if key.endswith("_study")]
    sections = [config, *studies, *(config["training"] or {}).values()]
    return list(dict.fromkeys(chain(*(part.get("datasets", ()) for part in sections if part))))


def refuse(message: str) -> NoReturn:
    """End Snakemake in an input function: after any other error it goes on with an old file."""
    raise SystemExit(message)

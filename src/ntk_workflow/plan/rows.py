"""The rows of a run, one file for each job that computes, and the settings of its studies."""

from collections.abc import Callable
from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.kernels import GRADIENT_KERNELS
from ntk_workflow.catalogue import known_image
from ntk_workflow.checks import GRID
from ntk_workflow.plan.phase import PhaseRows
from ntk_workflow.plan.run import STUDY_OF, options

#: What rows of a table are named by: keys of its study. Angles are of kernels that have gradients.
AXES = {name: table.axes for name, table in tables.TABLES.items() if table.axes is not None}
#: Keys of studies that their programs are not given as settings.
_NAMES = ("datasets", "classes", "architectures", "activations")


class Rows(PhaseRows):
    """What the rules of rows need."""

    def rows(self, table: str = "") -> Callable[[Any], list[str]]:
        """Return an input: the rows of a table, by default of the one that a job makes."""
        return lambda w: self.row_files(table or w.table)

    def row_files(self, table: str) -> list[str]:
        """Return the rows of a table."""
        if table == "datasets":
            return self.datasheets()
        if table == "phase":
            return self.phase_files()
        study = STUDY_OF.get(table, GRID)
        self.require(study)
        axes = {key: self.section(study)[key] for key in AXES[table]}
        if table == "angles":
            axes["kernels"] = [name for name in GRADIENT_KERNELS if name in axes["kernels"]]
        return [self.path(table, *row) + ".parquet" for row in product(*axes.values())]

    def grid(self, *keys: str) -> Callable[[Any], list[str]]:
        """Return a parameter: keys of the main grid as options, as they hold for a dataset."""
        return lambda w: options({key: self.setting(key, w.dataset) for key in keys})

    def study(self, name: str, *keys: str) -> Callable[[Any], list[str]]:
        """Return a parameter: keys of a study as options, by default all but names."""

        def settings(w: Any) -> list[str]:
            self.require(name)
            section = self.section(name)
            return options({k: section[k] for k in keys or section if k in keys or k not in _NAMES})

        return settings

    def study_activations(self, study: str) -> Callable[[Any], list[str]]:
        """Return a parameter: a study's activations, and the files that register one's own."""

        def words(w: Any) -> list[str]:
            self.require(study)
            return self.activation_options(*self.activations(study))

        return words

    def architectures(self, w: Any) -> list[str]:
        """Return a parameter: the networks of the study of architectures, and a sample's image."""
        self.require("architectures_study")
        section, image = self.config["architectures_study"], known_image(self.catalogue[w.dataset])
        words = ["--image", *map(str, image)] if image else []
        for name in section["models"]:
            of = {**section, **section["overrides"].get(name, {})}
            for width in of["widths"]:
                words += ["--network", name, *map(str, [width, *of["depths"]])]
            if name in self.models:
                entry = self.config["models"][name]
                words += ["--own-network", name, entry["file"], entry["function"]]
        return words

    def network(self, study: str) -> Callable[[Any], list[str]]:
        """Return a parameter: a study's network as options."""

        def words(w: Any) -> list[str]:
            architecture = self.config["architectures"][w.architecture]
            classes = self.config[study]["classes"]
            return [
                *("--hidden", *map(str, architecture["hidden"])),
                *(["--dense"] if architecture.get("dense") else []),
                *(["--classes", *map(str, classes)] if classes else []),
            ]

        return words

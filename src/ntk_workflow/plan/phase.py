"""The map of conditioning: which samples are measured through which activations."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from ntk_workflow.plan.datasets import Datasets
from ntk_workflow.plan.run import options

STUDY = "phase_study"
#: What a job measures: random samples, or more of them at fewer places.
PARTS = ("map", "large")
#: Keys of the study that rows of random samples depend on, apart from the shapes.
_PLACES = ("samples", "samples_per_dimension", "depths", "seeds")


class PhaseRows(Datasets):
    """What the rules of the map need."""

    def phase_files(self) -> list[str]:
        """Return the rows of the table `phase`."""
        self.require(STUDY)
        random = [
            ("phase", part, name)
            for part in PARTS
            for name in self.phase_part(part).get("activations", ())
        ]
        data = product(["phase"], ["data"], self.section(STUDY)["datasets"])
        return [self.path(*row) + ".parquet" for row in [*random, *data]]

    def phase_part(self, part: str) -> Mapping[str, Any]:
        """Return the places of a part; nothing where it is switched off."""
        study = self.section(STUDY)
        if part != "large":
            return dict(study)
        return {**study, **study["large"]} if study["large"] else {}

    def places(self, w: Any) -> list[str]:
        """Return the places of a part of the map as options."""
        part = self.phase_part(w.part)
        shapes = {name: numbers for name, numbers in part["shapes"].items() if numbers}
        return options({**shapes, **{key: part[key] for key in _PLACES}})

    def data_places(self, w: Any) -> list[str]:
        """Return how samples of a dataset are placed on the map, as options."""
        study = self.section(STUDY)
        settings = {key: study[key] for key in ("depths", "seeds")}
        return options({**settings, "samples": max(study["samples"])})

    def law_grid(self, w: Any) -> list[str]:
        """Return where the laws are evaluated, as options."""
        return options({**self.law_places(), "depths": self.section(STUDY)["depths"]})

    def law_places(self) -> dict[str, Any]:
        """Return what `law_grid.places` makes these of, but for the depths."""
        study = self.section(STUDY)
        ratios = study["samples_per_dimension"]
        closest = 1 - max(0.9, *study["shapes"]["equicorrelated"])
        ends = {"samples_per_dimension": [min(ratios), max(ratios)], "closest": closest}
        return {**ends, "points": study["laws"], "samples": max(study["samples"])}

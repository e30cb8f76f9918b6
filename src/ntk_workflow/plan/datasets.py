"""The datasets of a run: their files, draws and datasheets."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ntk_workflow import catalogue
from ntk_workflow.catalogue import SPEECH
from ntk_workflow.checks import GRID
from ntk_workflow.config import did_you_mean
from ntk_workflow.plan.run import Run, content, refuse


def _split(w: Any) -> str:
    return "test" if w.get("draw", "all") == "test" else "train"


class Datasets(Run):
    """What the rules of datasets need."""

    def setting(self, key: str, dataset: str) -> Any:
        """Return a value of the main grid as it holds for one dataset."""
        return self.config["overrides"].get(dataset, {}).get(key, self.config[key])

    def speech_of(self, dataset: str) -> dict[str, Any]:
        """Return how frames of a corpus become samples; their number may be an exception's."""
        exception = self.config["overrides"].get(dataset, {})
        return {**self.config["speech"], **{k: exception[k] for k in exception if k == "frames"}}

    def shape(self, dataset: str) -> tuple[int | None, int | None]:
        """Return all samples and features of a dataset; None for what only its files tell."""
        return catalogue.shape_of(self.catalogue[dataset], self.speech_of(dataset))

    @cached_property
    def downloads(self) -> dict[str, Mapping[str, Any]]:
        """The catalogued files by name; the run's own datasets come last and win."""
        entries = [self.catalogue.get(name, {}) for name in [*self.catalogue, *self.used_datasets]]
        return {file["name"]: file for each in entries for file in each.get("files", {}).values()}

    def download(self, key: str) -> Callable[[Any], Any]:
        """Return a parameter: what the catalogue says of a job's file."""
        return lambda w: self.downloads[w.file].get(key, 0)

    def original_files(self, w: Any) -> list[str]:
        """Return what must be there before a dataset is read: the receipts of its downloads.

        A path of the user's own needs no job.
        """
        files = catalogue.files_of(self.catalogue[w.dataset], _split(w)).values()
        return [self.path("downloads", f"{file['name']}.json") for file in files]

    def prepared_from(self, w: Any) -> list[str]:
        """Return the inputs of a prepared dataset."""
        if w.dataset not in self.catalogue:
            advice = did_you_mean(w.dataset, self.catalogue)
            refuse(f"no dataset {w.dataset!r}; {advice}")
        if self.catalogue[w.dataset]["reader"] == SPEECH:
            return [self.path("features", f"{w.dataset}.npz")]
        return self.original_files(w)

    def local_files(self, w: Any) -> dict[str, str]:
        """Return where a dataset's training or test samples are read from, by part."""
        entry, folder = self.catalogue[w.dataset], self.config["data_dir"]
        if "path" in entry:
            return {"train_x": entry["path"]}
        files = catalogue.files_of(entry, _split(w))
        return {part: f"{folder}/{file['name']}" for part, file in files.items()}

    def catalogues(self, wildcards: Any, output: Any) -> list[str]:
        """Return the files that describe datasets.

        Snakemake does not compare parameters that are derived from outputs: another catalogue is no
        reason to prepare a dataset again, `entry` is.
        """
        return list(self.config["catalogues"])

    def mirror(self, wildcards: Any, output: Any) -> str:
        """Return where files are fetched first; as with `catalogues`, no reason to rerun."""
        return f"--mirror={self.config['mirror'] or ''}"

    def parts(self, w: Any) -> list[str]:
        """Return the files of a dataset for the program that reads them."""
        files = self.local_files(w)
        if self.catalogue[w.dataset]["reader"] == SPEECH:
            files = {"features": self.placed(self.path("features", f"{w.dataset}.npz"))}
        return [f"{part}={path}" for part, path in files.items()]

    def entry(self, w: Any) -> str:
        """Return what the catalogue says of a dataset's content, for a job to depend on."""
        return repr(sorted(catalogue.content(self.catalogue[w.dataset]).items()))

    def own_content(self, w: Any) -> list[str]:
        """Return digests of a user's own file and alignments; the catalogue has all others'."""
        entry = self.catalogue[w.dataset]
        places = (entry.get("path"), entry.get("options", {}).get("alignments"))
        return [content(path) for path in places if path]

    def speech(self, w: Any) -> list[str]:
        """Return the settings of speech features, and the user's alignments, as options."""
        folder = self.catalogue[w.dataset]["options"].get("alignments")
        values = sorted(self.config["speech"].items())
        settings = [f"{key}={value}" for key, value in values if key != "frames"]
        return [*([f"--alignments={folder}"] if folder else []), "--settings", *settings]

    def draw(self, w: Any) -> list[str]:
        """Return the options that say which samples of a dataset make up a draw."""
        if w.draw in ("all", "test"):
            return ["--split", "test"] if w.draw == "test" else []
        samples = ["--samples", str(self.setting("samples", w.dataset))]
        balanced = ["--balanced"] if self.setting("balanced", w.dataset) else []
        return [*samples, "--seed", w.draw.removeprefix("seed-"), *balanced]

    def drawing_seeds(self, dataset: str) -> list[Any]:
        """Return the seeds of the main grid where they only draw the samples."""
        drawn = self.setting("samples", dataset) != "all"
        return list(self.config["seeds"]) if drawn else ["none"]

    def draws(self, dataset: str) -> list[str]:
        """Return the draws of a dataset of the main grid: one for each seed, or the whole."""
        seeds = self.drawing_seeds(dataset)
        return ["all"] if seeds == ["none"] else [f"seed-{seed}" for seed in seeds]

    def prepared(self, extension: str) -> Callable[[Any], list[str]]:
        """Return an input: the prepared samples (npz) of a row's seeds, or their datasheets."""
        return lambda w: [
            self.path("datasets", w.dataset, f"{draw}.{extension}")
            for draw in self.draws(w.dataset)
        ]

    def advised_activations(self, w: Any) -> list[str]:
        """Return a parameter: activations of the user's own, on which advice is given too."""
        own = [name for name in self.config["activations"] if self.plugins(name)]
        return self.activation_options(*own) if own else []

    def datasheets(self) -> list[str]:
        """Return the datasheets of all draws of the run's grids."""
        self.require(GRID)
        draws = [(name, draw) for name in self.config["datasets"] for draw in self.draws(name)]
        study = self.config["activation_study"] or {"datasets": ()}
        unique = dict.fromkeys([*draws, *((name, "all") for name in study["datasets"])])
        return [self.path("datasheets", name, f"{draw}.parquet") for name, draw in unique]

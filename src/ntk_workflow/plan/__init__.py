"""What a run consists of: its rows, trainings, tables and figures, from a checked config.

A `Plan` is made once from the config, in rules/common.smk. Its methods are the input and parameter
functions of the rules; those that take ``w`` are given a job's wildcards. A study that has mistakes
stops the jobs that belong to it, and nothing else.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ntk_conditioning.kernels import GRADIENT_KERNELS
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow import catalogue, checks
from ntk_workflow.catalogue import SPEECH
from ntk_workflow.checks import GRID
from ntk_workflow.claims import papers as claim_tables
from ntk_workflow.config import (
    Layer,
    did_you_mean,
    read_yaml,
    schema_errors,
    source_of,
    with_defaults,
)
from ntk_workflow.figures import listing, parameters
from ntk_workflow.figures.parameters import TRAINING_TABLES
from ntk_workflow.provenance import digests, versions
from ntk_workflow.settings import from_mapping, to_options
from ntk_workflow.trainings.settings import KernelSettings, TrainingSettings

#: The study that makes a table, by table; tables of the main grid are made whenever it is there.
STUDY_OF = {
    "activation_study": "activation_study",
    "bounds": "bounds_study",
    "orthogonality": "orthogonality_study",
    "linearity": "linearity_study",
    "precision": "precision_study",
    "activations": "activation_constants",
    "claim_experiments": "claim_experiments",
    "claims": "papers",
    **dict.fromkeys(TRAINING_TABLES, "training"),
}
TABLES = ("spectra", "conditioning", "angles", "datasets", *STUDY_OF, "width_slopes")

#: Where files are found, which is nobody else's business and changes no result.
PLACES = ("data_dir", "mirror")


class ConfigError(ValueError):
    """A config asks for what cannot be had; a line for each mistake."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A run, from its config.

    ``source`` is the folder of the workflow, ``mistakes`` what is wrong with each study, see
    `checks.problems`.
    """

    config: Mapping[str, Any]
    catalogue: Mapping[str, Mapping[str, Any]]
    figures: Mapping[str, Mapping[str, Any]]
    papers: Mapping[str, Any]
    source: Path
    layers: Sequence[Layer] = ()
    mistakes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, layers: Sequence[Layer], source: str | Path
    ) -> Plan:
        """Return the plan of a config, the result of its ``layers``.

        Raises:
            ConfigError: for unknown keys, values of a wrong type, and files that cannot be read.
        """
        source = Path(source)
        schemas = {name: read_yaml(source / f"schemas/{name}.schema.yaml") for name in _SCHEMAS}
        lines = schema_errors(config, schemas["config"], layers)
        if lines:
            raise ConfigError("\n".join(lines))
        config = with_defaults(config, schemas["config"])
        figures = read_yaml(source / "notebooks/figures.yaml")
        entries, lines = catalogue.load_catalogues(config["catalogues"], schemas["datasets"])
        for path in config["activation_files"]:
            try:
                activations.load_plugin(path)
            except ValueError as error:
                origin = source_of(["activation_files"], layers)
                lines.append(f"{origin}: activation_files: {error}")
        papers: dict[str, Any] = {}
        try:
            papers = claim_tables.read(config["papers"] or (), folder="papers", tables=TABLES)
        except ValueError as error:
            lines += str(error).splitlines()
        for index, name in enumerate(config["figures"]):
            if name not in figures:
                where = source_of(["figures", index], layers)
                advice = did_you_mean(name, figures)
                lines.append(f"{where}: figures[{index}]: unknown figure {name!r}; {advice}")
        used = {name: entries.get(name, {}) for name in checks.used_datasets(config)}
        lines += catalogue.file_errors(used)
        if lines:
            raise ConfigError("\n".join(lines))
        plan = cls(config, entries, figures, papers, source, layers)
        known = checks.Known(
            catalogue=entries,
            samples={name: plan.shape(name)[0] for name in used if name in entries},
            images=[name for name, entry in entries.items() if catalogue.known_image(entry)],
            plain=with_defaults({}, schemas["config"]["$defs"]["experiment"], schemas["config"]),
        )
        mistakes = checks.problems(config, known, layers)
        return cls(config, entries, figures, papers, source, layers, mistakes)

    def require(self, *studies: str) -> None:
        """Raise `ConfigError` if one of the studies is switched off or has mistakes."""
        lines = [line for study in studies for line in self.mistakes.get(study, ())]
        lines += [
            f"config: {study} is switched off (null), and what was asked for needs it"
            for study in studies
            if study != GRID and not self._section(study)
        ]
        if lines:
            raise ConfigError("\n".join(lines))

    def _section(self, study: str) -> Any:
        section: Any = self.config
        for key in study.split("."):
            section = (section or {}).get(key)
        return section

    # --- names ------------------------------------------------------------------------------------

    @property
    def run(self) -> str:
        """The run's name."""
        return str(self.config["run"])

    @cached_property
    def experiments(self) -> dict[str, Mapping[str, Any]]:
        """The experiments with trained networks, by name, so that their order reruns nothing."""
        given = self.config["training"] or {}
        return {name: given[name] for name in sorted(given) if given[name]}

    @cached_property
    def tables(self) -> list[str]:
        """The tables of the run: those whose studies are not switched off."""
        kept = [name for name in TABLES if name not in STUDY_OF or self._is_on(STUDY_OF[name])]
        slopes = self._is_on("orthogonality_study") and self._is_on("linearity_study")
        return [name for name in kept if name != "width_slopes" or slopes]

    def _is_on(self, study: str) -> bool:
        if study == "training":
            return bool(self.experiments)
        if study == "claim_experiments":
            return bool(self._section(study) and claim_tables.with_experiments(self.papers))
        return bool(self._section(study))

    def path(self, *parts: str) -> str:
        """Return where a file of the run is."""
        return "/".join(("results", self.run, *parts))

    # --- code -------------------------------------------------------------------------------------

    def plugins(self, *names: str) -> list[str]:
        """Return the files that register activations; none if all are the package's own."""
        built_in = {activations.base_name(name) for name in names} <= _BUILT_IN
        return [] if built_in else list(self.config["activation_files"])

    def activation(self, w: Any) -> list[str]:
        """Return the files of an activation of the user's own as options."""
        return [f"--activation-file={file}" for file in self.plugins(w.activation)]

    def code(self, *programs: str, study: str = "") -> Callable[[Any], str]:
        """Return a parameter: the digest of programs, what they import, and own activations.

        Programs may contain wildcards. Activations are those of a study, or a job's.
        """

        def digest(wildcards: Any) -> str:
            known = self._activations(study) if study else [wildcards.get("activation", "relu")]
            paths = [program.format(**dict(wildcards)) for program in programs]
            return self._digest(*paths, *self.plugins(*known))

        return digest

    @cache  # noqa: B019 one plan lives as long as Snakemake
    def _digest(self, *programs: str) -> str:
        return digests.source_digest(*programs, source=self.source / "src")

    def all_code(self, w: Any) -> str:
        """Return the digest of all that computes: programs, notebooks, own activations."""
        programs = sorted(str(path) for path in self.source.glob("scripts/*.py"))
        notebooks = [str(self.source / f"notebooks/{figure}.ipynb") for figure in self.figures]
        return self._digest(*programs, *notebooks, *self.config["activation_files"])

    # --- data -------------------------------------------------------------------------------------

    def setting(self, key: str, dataset: str) -> Any:
        """Return a value of the main grid as it holds for one dataset."""
        return self.config["overrides"].get(dataset, {}).get(key, self.config[key])

    def frames(self, w: Any) -> Any:
        """Return how many frames are drawn from a speech corpus: a number, or all."""
        own = self.config["overrides"].get(w.dataset, {})
        return own.get("frames", self.config["speech"]["frames"])

    def shape(self, dataset: str) -> tuple[int | None, int | None]:
        """Return all samples and features of a dataset; None for what only its files tell."""
        own = self.config["overrides"].get(dataset, {})
        speech = {**self.config["speech"], **({"frames": own["frames"]} if "frames" in own else {})}
        return catalogue.shape_of(self.catalogue[dataset], speech)

    def is_drawn(self, dataset: str) -> bool:
        """Return whether every seed of the main grid draws its own samples of a dataset."""
        return bool(self.setting("samples", dataset) != "all")

    def has_test_set(self, dataset: str) -> bool:
        """Return whether a dataset has test samples of its own."""
        return bool(catalogue.files_of(self.catalogue[dataset], "test"))

    @cached_property
    def downloads(self) -> dict[str, Mapping[str, Any]]:
        """The catalogued files by name; the run's own datasets come last and win."""
        entries = [*self.catalogue, *checks.used_datasets(self.config)]
        return {
            file["name"]: file
            for name in entries
            for file in self.catalogue.get(name, {}).get("files", {}).values()
        }

    def download(self, key: str) -> Callable[[Any], Any]:
        """Return a parameter: what the catalogue says of a job's file."""
        return lambda w: self.downloads[w.file].get(key, 0)

    def original_files(self, w: Any, split: str = "train") -> list[str]:
        """Return what must be there before a dataset's training or test samples are read.

        For a download that is the receipt of its file; a path of the user's own needs no job.
        """
        entry = self.catalogue[w.dataset]
        files = catalogue.files_of(entry, split).values()
        return [self.path("downloads", f"{file['name']}.json") for file in files]

    def prepared_from(self, w: Any) -> list[str]:
        """Return the inputs of a prepared dataset."""
        if w.dataset not in self.catalogue:
            raise ConfigError(
                f"no dataset {w.dataset!r}; {did_you_mean(w.dataset, self.catalogue)}"
            )
        if self.catalogue[w.dataset]["reader"] == SPEECH:
            return [self.path("features", f"{w.dataset}.npz")]
        return self.original_files(w, "test" if w.draw == "test" else "train")

    def local_files(self, w: Any, split: str = "train") -> dict[str, str]:
        """Return where a dataset's training or test samples are read from, by part."""
        entry = self.catalogue[w.dataset]
        if "path" in entry:
            return {"train_x": entry["path"]}
        files = catalogue.files_of(entry, split)
        return {part: f"{self.config['data_dir']}/{file['name']}" for part, file in files.items()}

    def catalogues(self, wildcards: Any, output: Any) -> list[str]:
        """Return the files that describe datasets.

        Snakemake does not compare parameters that are derived from outputs: another catalogue is no
        reason to prepare a dataset again, `entry` is.
        """
        return list(self.config["catalogues"])

    def parts(self, w: Any) -> list[str]:
        """Return the files of a dataset for the program that reads them."""
        if self.catalogue[w.dataset]["reader"] == SPEECH:
            return [f"features={self.path('features', f'{w.dataset}.npz')}"]
        files = self.local_files(w, "test" if w.draw == "test" else "train")
        return [f"{part}={path}" for part, path in files.items()]

    def entry(self, w: Any) -> str:
        """Return what the catalogue says of a dataset's content, for a job to depend on."""
        return repr(sorted(catalogue.content(self.catalogue[w.dataset]).items()))

    def own_content(self, w: Any) -> list[str]:
        """Return digests of a user's own file and alignments; the catalogue has all others'."""
        entry = self.catalogue[w.dataset]
        places = (entry.get("path"), entry.get("options", {}).get("alignments"))
        return [_content(path) for path in places if path]

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

    def draws(self, dataset: str) -> list[str]:
        """Return the draws of a dataset of the main grid: one for each seed, or the whole."""
        seeds = [f"seed-{seed}" for seed in self.config["seeds"]]
        return seeds if self.is_drawn(dataset) else ["all"]

    def prepared(self, extension: str) -> Callable[[Any], list[str]]:
        """Return an input: the prepared samples (npz) of a row's seeds, or their datasheets."""
        return lambda w: [
            self.path("datasets", w.dataset, f"{draw}.{extension}")
            for draw in self.draws(w.dataset)
        ]

    def datasheets(self, w: Any) -> list[str]:
        """Return the datasheets of all draws of the run's grids."""
        self.require(GRID)
        draws = [(name, draw) for name in self.config["datasets"] for draw in self.draws(name)]
        draws += [
            (name, "all") for name in (self.config["activation_study"] or {}).get("datasets", ())
        ]
        return [
            self.path("datasheets", name, f"{draw}.parquet") for name, draw in dict.fromkeys(draws)
        ]

    # --- rows: kernels and angles -----------------------------------------------------------------

    def rows(self, w: Any) -> list[str]:
        """Return the rows of the main grid's spectra."""
        self.require(GRID)
        return list(self._rows("spectra", self.config["kernels"]))

    def angle_rows(self, w: Any) -> list[str]:
        """Return the rows of the main grid's smallest angles."""
        self.require(GRID)
        return list(
            self._rows("angles", [k for k in GRADIENT_KERNELS if k in self.config["kernels"]])
        )

    def _rows(self, folder: str, kernels: Collection[str]) -> Iterator[str]:
        for row in product(kernels, self.config["datasets"], self.config["activations"]):
            yield self.path(folder, *row[:-1], f"{row[-1]}.parquet")

    def study_rows(self, w: Any) -> list[str]:
        """Return the rows of the activation study."""
        self.require("activation_study")
        study = self.config["activation_study"]
        points = product(study["datasets"], study["activations"])
        return [self.path("activation_study", name, f"{sigma}.parquet") for name, sigma in points]

    def depths(self, w: Any) -> list[int]:
        """Return the depths of a row of the main grid."""
        return list(self.setting("depths", w.dataset))

    def seeds(self, w: Any) -> list[int]:
        """Return the seeds of a row."""
        return list(self.config["seeds"])

    def drawing_seeds(self, w: Any) -> list[Any]:
        """Return the seeds of a row where they only draw the samples."""
        return list(self.config["seeds"]) if self.is_drawn(w.dataset) else ["none"]

    def blocks(self, w: Any) -> list[str]:
        """Return the kernel blocks of a row, and how they are solved, as options."""
        values = {key: self.setting(key, w.dataset) for key in ("kernel_size", "blocks")}
        return self._solved(values)

    def study_blocks(self, w: Any) -> list[str]:
        """Return the same for the activation study."""
        return self._solved(
            {k: self.config["activation_study"][k] for k in ("kernel_size", "blocks")}
        )

    def _solved(self, values: Mapping[str, Any]) -> list[str]:
        solver = {key: self.config[key] for key in ("eigenvalues", "full_spectrum_below")}
        return _options({**values, **solver})

    # --- studies ----------------------------------------------------------------------------------

    def study(self, name: str, *keys: str) -> Callable[[Any], list[str]]:
        """Return a parameter: all or some keys of a study as options."""

        def options(w: Any) -> list[str]:
            self.require(name)
            section = self._section(name)
            return _options({key: section[key] for key in keys or section})

        return options

    def study_activations(self, study: str) -> Callable[[Any], list[str]]:
        """Return a parameter: a study's activations, and the files that register one's own."""

        def options(w: Any) -> list[str]:
            self.require(study)
            names = self._activations(study)
            files = [f"--activation-file={file}" for file in self.plugins(*names)]
            return ["--activations", *names, *files]

        return options

    def _activations(self, study: str) -> list[str]:
        section = self._section(study) or []
        return list(section if isinstance(section, list) else section["activations"])

    def width_study(self, study: str) -> Callable[[Any], list[str]]:
        """Return a parameter: the settings that all networks of a width study share."""
        shared = ("datasets", "classes", "architectures", "activations")
        return lambda w: _options(
            {key: value for key, value in self.config[study].items() if key not in shared}
        )

    def bounds_rows(self, w: Any) -> list[str]:
        """Return the comparisons with bounds, a file for each dataset."""
        self.require("bounds_study")
        names = self.config["bounds_study"]["datasets"]
        return [self.path("bounds", f"{name}.parquet") for name in names]

    def width_rows(self, w: Any, table: str = "") -> list[str]:
        """Return the rows of the orthogonality or linearity study, by the table's name."""
        table = table or w.table
        self.require(f"{table}_study")
        study = self.config[f"{table}_study"]
        points = product(study["datasets"], study["architectures"], study["activations"])
        return [self.path(table, d, a, f"{sigma}.parquet") for d, a, sigma in points]

    def network(self, study: str) -> Callable[[Any], list[str]]:
        """Return a parameter: a study's network and its plugins as options."""

        def options(w: Any) -> list[str]:
            architecture = self.config["architectures"][w.architecture]
            classes = self.config[study]["classes"]
            return [
                *("--hidden", *map(str, architecture["hidden"])),
                *(["--dense"] if architecture.get("dense") else []),
                *(["--classes", *map(str, classes)] if classes else []),
                *self.activation(w),
            ]

        return options

    # --- trainings --------------------------------------------------------------------------------

    def experiment(self, w: Any) -> dict[str, Any]:
        """Return the settings of an experiment as they hold for one model on one dataset."""
        values = dict(self.experiments[w.experiment])
        overrides = values.pop("overrides")
        for name in (w.dataset, w.model):  # where both have an exception, the model's is taken
            values |= overrides.get(name, {})
        return values

    def training_settings(self, w: Any) -> TrainingSettings:
        """Return what a training is told."""
        image = None
        if MODELS[w.model].by_modules:
            image = catalogue.known_image(self.catalogue[w.dataset])
        return TrainingSettings.from_config(self.experiment(w), image=image)

    def training_options(self, w: Any) -> list[str]:
        """Return the same as options, with the table of critical rates and the test samples."""
        settings = self.training_settings(w)
        kernel = [f"--kernel={name}" for name in self.training_kernel(w)]
        test = [f"--test={name}" for name in self.test_samples(w)]
        if test:
            settings = replace(settings, test_share=0.0)
        return [*to_options(settings), *kernel, *test]

    def kernel_options(self, w: Any) -> list[str]:
        """Return the options of the NTK at a training's initialisation."""
        return to_options(from_mapping(KernelSettings, vars(self.training_settings(w))))

    def training_kernel(self, w: Any) -> list[str]:
        """Return the table of critical rates, if a training needs it."""
        place = (w.experiment, w.dataset, w.model, w.activation, f"depth-{w.depth}.parquet")
        needed = self.training_settings(w).relative_rates
        return [self.path("training_kernels", *place)] if needed else []

    def test_samples(self, w: Any) -> list[str]:
        """Return the test samples of a training, if the dataset has any."""
        name = self.path("datasets", w.dataset, "test.npz")
        return [name] if self.has_test_set(w.dataset) else []

    def training_datasheets(self, w: Any) -> list[str]:
        """Return the datasheets of a training's samples, which tell when they change."""
        draws = ["all", *(["test"] if self.has_test_set(w.dataset) else [])]
        return [self.path("datasets", w.dataset, f"{draw}.json") for draw in draws]

    def trainings(self, w: Any) -> list[str]:
        """Return the curves, or the kernels, of an experiment's networks: a file for each depth."""
        self.require(f"training.{w.experiment}")
        values = self.experiments[w.experiment]
        models = values["models"]
        if w.table == "training_kernels":
            models = [name for name in models if not MODELS[name].by_modules]
        return [
            self.path(w.table, w.experiment, dataset, model, sigma, f"depth-{depth}.parquet")
            for dataset in values["datasets"]
            for model, sigma in product(models, values["activations"])
            for depth in values["overrides"].get(dataset, {}).get("depths", values["depths"])
        ]

    def criterion(self, w: Any) -> list[str]:
        """Return what makes a learning rate the best as options."""
        return _options(
            {key: self.experiments[w.experiment][key] for key in ("criterion", "loss_level")}
        )

    def experiment_tables(self, w: Any) -> list[str]:
        """Return the tables of all experiments, by the table's name."""
        return [self.path("tables", w.table, f"{name}.parquet") for name in self.experiments]

    # --- figures ----------------------------------------------------------------------------------

    @cached_property
    def drawn_figures(self) -> list[str]:
        """The figures that `all` draws: those of the config whose studies are not switched off."""
        return [name for name in self.config["figures"] if not self._off(name)]

    def _off(self, figure: str) -> list[str]:
        """Return the studies that a figure needs and that are switched off."""
        spec = self.figures[figure]
        off = [
            STUDY_OF[t] for t in spec["tables"] if t in STUDY_OF and not self._is_on(STUDY_OF[t])
        ]
        if patterns := spec.get("experiments"):
            first = fnmatch.filter(self.experiments, patterns[0])
            off += [] if first else [f"training.{patterns[0].removesuffix('*')}"]
        return list(dict.fromkeys(off))

    def figure_files(self, figure: str) -> list[str]:
        """Return what a figure consists of."""
        return [self.path("figures", f"{figure}.{kind}") for kind in ("pdf", "png")]

    def figure_tables(self, w: Any) -> list[str]:
        """Return the tables that a figure's notebook reads."""
        self._require_figure(w.figure)
        return [path for paths in self._tables_of(w.figure).values() for path in paths]

    def _require_figure(self, figure: str) -> None:
        if off := self._off(figure):
            raise ConfigError(
                f"{figure} needs {' and '.join(off)}, which the config lacks or switches off"
            )
        for key, choices in self.figures[figure].get("needs", {}).items():
            have = self.config[key] if isinstance(self.config[key], list) else [self.config[key]]
            if not set(choices) & set(have):
                raise ConfigError(
                    f"{source_of([key], self.layers)}: {figure} needs "
                    f"{' or '.join(choices)} in {key!r}, which is {self.config[key]!r}; add it "
                    "there or remove the figure"
                )

    def _tables_of(self, figure: str) -> dict[str, list[str]]:
        """Return the files of each table of a figure; trainings have one for each experiment."""
        return parameters.tables_of(self.figures[figure], self.experiments, self.path("tables"))

    def figure_parameters(self, w: Any) -> list[str]:
        """Return a notebook's parameters as NAME=VALUE: its tables, config values and files."""
        pdf, png = self.figure_files(w.figure)
        tables = self._tables_of(w.figure)
        spec = self.figures[w.figure]
        values = parameters.parameters(spec, self.config, tables=tables, pdf=pdf, png=png)
        return parameters.to_words(values)

    # --- figures for a paper ----------------------------------------------------------------------

    def paper_pdf(self, figure: str) -> str:
        """Return where a figure lies that is collected for a paper."""
        return self.path("paper", f"{listing.target(figure)}.pdf")

    def paper_figures(self, w: Any) -> list[str]:
        """Return the figures that are collected, as NAME=PDF."""
        return [f"{listing.target(f)}={self.figure_files(f)[0]}" for f in self.drawn_figures]

    def captions(self, w: Any) -> list[str]:
        """Return their captions, as NAME=FILE."""
        return [f"{listing.target(f)}=notebooks/{f}.rst" for f in self.drawn_figures]

    def caption_content(self, w: Any) -> list[str]:
        """Return digests of their captions: they are no inputs, so that touching does nothing."""
        return [_content(str(self.source / f"notebooks/{f}.rst")) for f in self.drawn_figures]

    # --- claims -----------------------------------------------------------------------------------

    def papers_with_experiments(self, w: Any) -> list[str]:
        """Return the papers that have numerical experiments of their own."""
        self.require("claim_experiments")
        return claim_tables.with_experiments(self.papers)

    def paper_files(self, w: Any) -> list[str]:
        """Return the files of the papers' claims."""
        self.require("papers")
        return [f"papers/{name}.yaml" for name in self.papers]

    def claimed_tables(self, w: Any) -> list[str]:
        """Return the tables that claims are about; claims on a study that is off are not tested."""
        claimed = claim_tables.tables(self.papers)
        return [self.path("tables", f"{name}.parquet") for name in claimed if name in self.tables]

    # --- record and bundle ------------------------------------------------------------------------

    @cached_property
    def pages(self) -> list[str]:
        """The pages of the run: its claims, its small tables, config and versions."""
        shown = [page for page in listing.PAGES if page == "run" or page in self.tables]
        pages = [self.path("pages", f"{page}.html") for page in shown]
        return [*([self.path("claims.html")] if self.papers else []), *pages]

    def page_sources(self, w: Any) -> list[str]:
        """Return what a page of the report is made from."""
        if w.page == "run":
            return [self.path("record", name) for name in ("config.yaml", "versions.json")]
        return [self.path("tables", f"{w.page}.parquet")]

    def libraries(self, w: Any) -> list[str]:
        """Return the versions of the libraries that matter."""
        return [f"{name} {version}" for name, version in versions.libraries().items()]

    def used_datasets(self, w: Any) -> list[str]:
        """Return the datasets of the run."""
        return checks.used_datasets(self.config)

    def given_config(self, w: Any) -> list[str]:
        """Return the config without what only says where files are, as KEY=VALUE."""
        kept = {key: self.config[key] for key in sorted(self.config) if key not in PLACES}
        return parameters.to_words(kept)

    def results(self, w: Any) -> list[str]:
        """Return the results that are bundled; figures come with the notebooks that drew them."""
        figures = self.drawn_figures
        tables = [f"tables/{table}.parquet" for table in self.tables]
        shown = [t for t in TRAINING_TABLES if self.experiments]
        tables += [f"tables/{t}/{name}.parquet" for t, name in product(shown, self.experiments)]
        files = [*tables, *(f"notebooks/{figure}.ipynb" for figure in figures)]
        files += [f"claims.{kind}" for kind in ("md", "html")] if self.papers else []
        files += [f"record/{name}" for name in ("config.yaml", "versions.json")]
        drawn = [file for figure in figures for file in self.figure_files(figure)]
        return [*(self.path(file) for file in files), *drawn]

    def all_rows(self, w: Any) -> list[str]:
        """Return all rows and trainings of the run, of which its tables are made."""
        found = [*self.rows(w), *self.angle_rows(w)]
        found += self.study_rows(w) if self._is_on("activation_study") else []
        found += self.bounds_rows(w) if self._is_on("bounds_study") else []
        for table in ("orthogonality", "linearity"):
            found += self.width_rows(w, table) if self._is_on(f"{table}_study") else []
        for name, table in product(self.experiments, ("training", "training_kernels")):
            found += self.trainings(JobWildcards(experiment=name, table=table))
        return found

    def own_files(self, key: str) -> list[str]:
        """Return the user's own catalogues or activations that are not part of the source."""
        found = [Path(self.source, file) for file in self.config[key]]
        named = [f.relative_to(self.source) if self.source in f.parents else f for f in found]
        return [str(file) for file in named if file.parts[0] not in SOURCE]

    def source_files(self, w: Any) -> list[str]:
        """Return the files and folders of the workflow's source, with own activations."""
        return [*SOURCE, *self.own_files("activation_files")]

    def source_content(self, w: Any) -> str:
        """Return a digest of the bundled source: to touch it does nothing, to change it counts."""
        return digests.folder_digest([*self.source_files(w), *self.own_files("catalogues")])


#: The workflow's source, as it is bundled. Links stay outside: a bag has none.
SOURCE = (
    *("CITATION.cff", "LICENSE", "Makefile", "README.md", "Snakefile", "config", "config.yaml"),
    *("datasets.yaml", "envs", "notebooks", "papers", "profiles", "pyproject.toml", "resources"),
    *("rules", "schemas", "scripts", "src"),
)
_SCHEMAS = ("config", "datasets")
_BUILT_IN = frozenset(activations.names())


class JobWildcards:
    """Wildcards of a job as attributes, where Snakemake gives none."""

    def __init__(self, **values: str) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> str:
        raise AttributeError(name)


@cache
def _content(path: str) -> str:
    """Return a digest of a user's file or folder, taken once each time Snakemake starts."""
    return digests.path_digest(path)


def _options(values: Mapping[str, Any]) -> list[str]:
    """Return values as command-line options, in an order that does not depend on the config's."""
    words: list[str] = []
    for key, value in sorted(values.items()):
        given = value if isinstance(value, list) else [value]
        words += [f"--{key.replace('_', '-')}", *map(str, given)]
    return words

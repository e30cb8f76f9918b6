"""Which cells a run's tables have: those that its config asks for, no more and no fewer."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.kernels import GRADIENT_KERNELS
from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.spectra.precision_grid import places
from ntk_conditioning.tables import TABLES, Table
from ntk_conditioning.theory import law_grid
from ntk_conditioning.theory.sphere import SHAPES
from ntk_conditioning.training.descent import Along
from ntk_workflow.bundle import BundleError
from ntk_workflow.plan import Plan
from ntk_workflow.plan.phase import PARTS
from ntk_workflow.trainings.settings import TrainingSettings

Cell = tuple[Any, ...]

#: Key columns that are computed, which other processors round otherwise.
_COMPUTED = frozenset({"delta", "c"})
#: What the settings of a training depend on, and the networks of one training.
_MODEL = ("dataset", "model")
_NETWORK = (*_MODEL, "activation", "depth")
_RATE = ("relative_rate", "rate_unit", "learning_rate")


@dataclass(frozen=True)
class Cells:
    """The cells of a table by some of its ``columns``, and which of its rows they are about."""

    columns: tuple[str, ...]
    cells: Iterator[Cell]
    of: Callable[[Mapping[str, Any]], bool] = lambda _: True


def require_cells(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` unless the tables have the cells that the recorded config asks for."""
    for name, asked in _asked(payload, plan):
        path = plan.path("tables", f"{name}.parquet")
        kind = "conditioning" if name == "activation_study" else name.split("/")[0]
        known = dict.fromkeys((*TABLES[kind].keys, *asked.columns))
        columns = [column for column in known if column in TABLES[kind].schema.names]
        rows = tables.read(payload / path, TABLES[kind], columns=columns).to_pylist()
        try:
            for column in _COMPUTED.intersection(asked.columns):
                rows = [{**row, column: rounded(row[column])} for row in rows]
            found = {tuple(row[c] for c in asked.columns) for row in rows if asked.of(row)}
            # a hostile config asks for more cells than there is time to count
            expected = set(islice(asked.cells, 10 * len(rows) + 1000))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise BundleError(f"{path}: does not fit the recorded config ({error!r})") from None
        if absent := expected - found:
            cell = _named(asked, min(absent, key=repr))
            raise BundleError(f"{path}: lacks {cell}, for which the recorded config asks")
        if extra := found - expected:
            cell = _named(asked, min(extra, key=repr))
            raise BundleError(f"{path}: has {cell}, for which the recorded config does not ask")


def rounded(number: float) -> float:
    """Return a number that other processors have rounded otherwise, with 12 digits."""
    return float(f"{number:.12g}")


def _named(asked: Cells, cell: Cell) -> str:
    pairs = zip(asked.columns, cell, strict=True)
    return ", ".join(f"{name} {value}" for name, value in pairs if value is not None)


def _asked(payload: Path, plan: Plan) -> Iterator[tuple[str, Cells]]:
    for name, make in _STUDIES.items():
        if name in plan.tables:
            yield from ((name, cells) for cells in make(plan))
    for experiment in plan.experiments:
        trained = _trained(payload, plan, experiment)
        yield from ((f"{name}/{experiment}", cells) for name, cells in trained)


def _spectra(plan: Plan) -> Iterator[Cells]:
    blocks = {each: plan.setting("blocks", each) for each in plan.config["datasets"]}
    counted = all(isinstance(count, int) for count in blocks.values())
    sizes = [plan.setting("kernel_size", each) for each in plan.config["datasets"]]
    sized = all(isinstance(size, int) for size in sizes)

    def cells() -> Iterator[Cell]:
        for kernel, dataset, activation in _grid(plan, plan.config["kernels"]):
            finite = kernel.startswith("empirical")
            width = plan.setting("width", dataset) if finite else None
            n = plan.setting("kernel_size", dataset) if sized else None
            dtype = plan.setting("dtype", dataset) if finite else "float64"
            of = (kernel, dataset, activation)
            numbers = range(blocks[dataset]) if counted else (0,)
            for seed, depth, block in product(
                plan.setting("seeds", dataset), plan.setting("depths", dataset), numbers
            ):
                yield (*of, depth, seed, block, width, dtype, *([n] if sized else []))

    columns = ("kernel", "dataset", "activation", "depth", "seed", "block", "width", "dtype")
    yield Cells(
        (*columns, *(["n"] if sized else [])), cells(), lambda row: counted or row["block"] == 0
    )


def _angles(plan: Plan) -> Iterator[Cells]:
    def cells() -> Iterator[Cell]:
        kernels = [name for name in GRADIENT_KERNELS if name in plan.config["kernels"]]
        for kernel, dataset, activation in _grid(plan, kernels):
            finite = kernel.startswith("empirical")
            seeds = plan.setting("seeds", dataset) if finite else plan.drawing_seeds(dataset)
            width = plan.setting("width", dataset) if finite else None
            dtype = plan.setting("dtype", dataset) if finite else "float64"
            for seed, depth in product(seeds, plan.setting("depths", dataset)):
                yield (kernel, dataset, activation, depth, _or_none(seed), width, dtype)

    columns = ("kernel", "dataset", "activation", "depth", "seed", "width", "dtype")
    yield Cells(columns, cells())


def _grid(plan: Plan, kernels: list[str]) -> Iterator[tuple[str, str, str]]:
    return product(kernels, plan.config["datasets"], plan.config["activations"])


def _or_none(seed: Any) -> Any:
    return None if seed == "none" else seed


def _datasets(plan: Plan) -> Iterator[Cells]:
    study = plan.config["activation_study"] or {"datasets": ()}
    draws = [(name, s) for name in plan.config["datasets"] for s in plan.drawing_seeds(name)]
    draws += [(name, None) for name in study["datasets"]]
    scaled = ((name, _or_none(s), plan.catalogue[name]["scaling"]) for name, s in draws)
    yield Cells(("dataset", "seed", "scaling"), scaled)


def _activation_study(plan: Plan) -> Iterator[Cells]:
    study = plan.config["activation_study"]
    axes = [study[key] for key in ("datasets", "activations", "depths")]
    seeds, blocks = len(study["seeds"]), study["blocks"]
    count = (seeds * blocks,) if isinstance(blocks, int) else ()
    columns = ("kernel", "dataset", "activation", "depth", "seeds", *(["blocks"] if count else []))
    yield Cells(columns, (("infinite_ntk", *cell, seeds, *count) for cell in product(*axes)))


def _bounds(plan: Plan) -> Iterator[Cells]:
    study = plan.config["bounds_study"]
    axes = (study["datasets"], study["activations"], ("nngp", "infinite_ntk"), study["depths"])
    columns = ("dataset", "activation", "kernel", "depth", "n")
    yield Cells(columns, product(*axes, (study["samples"],)))


def _phase(plan: Plan) -> Iterator[Cells]:
    study = plan.config["phase_study"]

    def random() -> Iterator[Cell]:
        for part in filter(None, map(plan.phase_part, PARTS)):
            places = product(part["samples"], part["samples_per_dimension"], SHAPES)
            for n, ratio, shape in places:
                if n / ratio >= 3:
                    axes = (part["shapes"].get(shape) or (), part["activations"], part["depths"])
                    for parameter, *of in product(*axes, part["seeds"]):
                        yield (shape, float(parameter), n, round(n / ratio), *of)

    columns = ("shape", "parameter", "n", "d", "activation", "depth", "seed")
    yield Cells(columns, random(), lambda row: row["dataset"] == "")
    axes = (study[key] for key in ("datasets", "activations", "depths", "seeds"))
    names = ("dataset", "activation", "depth", "seed")
    yield Cells(names, product(*axes), lambda row: row["dataset"] != "")


def _phase_laws(plan: Plan) -> Iterator[Cells]:
    study, places = plan.config["phase_study"], plan.law_places()

    def cells() -> Iterator[Cell]:
        for of in product(study["activations"], {0, *study["depths"]}):
            for d, c in law_grid.places(**places):
                yield (*of, places["samples"], d, rounded(c))

    yield Cells(("activation", "depth", "n", "d", "c"), cells())


def _finite_width(plan: Plan) -> Iterator[Cells]:
    study = plan.config["finite_width_study"]
    names = ("datasets", "activations", "samples", "widths", "depths", "seeds")
    cells = product(*(study[name] for name in names))
    columns = ("dataset", "activation", "n", "width", "depth", "seed", "networks")
    yield Cells(columns, ((*cell, study["networks"]) for cell in cells if cell[4] <= cell[3]))


def _repairs(plan: Plan) -> Iterator[Cells]:
    study = plan.config["repairs_study"]
    axes = [study[key] for key in ("datasets", "activations", "depths", "seeds")]
    columns = ("dataset", "activation", "depth", "seed", "place", "directions")
    tops = [*product(("samples", "kernel"), (0, *study["directions"])), ("nothing", 0)]
    yield Cells(columns, ((*cell, *top) for *cell, top in product(*axes, tops)))


def _architectures(plan: Plan) -> Iterator[Cells]:
    study = plan.config["architectures_study"]

    def cells() -> Iterator[Cell]:
        drawn = ("empirical_ntk", study["models"], study["seeds"])
        for kernel, models, seeds in (drawn, ("infinite_ntk", study["infinite_width"], [None])):
            for network in product(study["datasets"], models, study["activations"]):
                of = {**study, **study["overrides"].get(network[1], {})}
                widths = [None] if seeds == [None] else of["widths"]
                yield from (
                    (kernel, *network, *of_cell) for of_cell in product(of["depths"], seeds, widths)
                )

    yield Cells(("kernel", "dataset", "model", "activation", "depth", "seed", "width"), cells())


def _orthogonality(plan: Plan) -> Iterator[Cells]:
    study = plan.config["orthogonality_study"]
    names = ("datasets", "architectures", "activations", "widths", "seeds")
    moments = [(0.0, 0), *product(map(float, study["label_scales"]), study["steps"])]
    columns = ("dataset", "architecture", "activation", "width", "seed", "label_scale", "steps")
    hidden = plan.config["architectures"]

    def cells() -> Iterator[Cell]:
        for *cell, moment in product(*(study[name] for name in names), moments):
            layers = range(1, len(hidden[cell[1]]["hidden"]) + 1)
            yield from ((*cell, *moment, study["samples"], layer) for layer in layers)

    yield Cells((*columns, "n", "layer"), cells())


def _linearity(plan: Plan) -> Iterator[Cells]:
    study = plan.config["linearity_study"]
    names = ("datasets", "architectures", "activations", "widths", "seeds")
    axes = [*(study[name] for name in names), map(float, study["radii"])]
    columns = ("dataset", "architecture", "activation", "width", "seed", "radius", "steps")
    yield Cells(columns, ((*cell, study["steps"]) for cell in product(*axes)))


def _precision(plan: Plan) -> Iterator[Cells]:
    study = plan.config["precision_study"]
    axes = {key: study[key] for key in ("depths", "seeds", "points")}
    sizes = study["samples"], study["dim"]

    def cells() -> Iterator[Cell]:
        for at in places(**axes):
            width = study["width"] if at.finite else None
            of = (at.kernel, at.activation, at.depth, at.seed, width, *sizes)
            yield from ((*of, method, rounded(at.delta)) for method in at.methods)

    columns = ("kernel", "activation", "depth", "seed", "width", "n", "d", "method", "delta")
    yield Cells(columns, cells())


def _activations(plan: Plan) -> Iterator[Cells]:
    bases = plan.config["activation_constants"]
    names = {
        name for base in bases for name in (base, f"normalized_{base.removeprefix('normalized_')}")
    }
    yield Cells(("activation",), ((name,) for name in names))


def _claim_experiments(plan: Plan) -> Iterator[Cells]:
    """Yield the sizes of two experiments, which have all of one kind; most have their own."""
    study = plan.config["claim_experiments"]
    whole = {"linear_kernel": ("depths", "widths"), "descent_rate": ("depths", "seeds")}
    for statement, axes in whole.items() if "liu2023relu" in plan.papers else ():
        columns = ("statement", *(axis.removesuffix("s") for axis in axes))
        cells = product([statement], *(study[axis] for axis in axes))
        yield Cells(columns, cells, partial(_is_about, statement))


def _is_about(statement: str, row: Mapping[str, Any]) -> bool:
    return bool(row["statement"] == statement)


_STUDIES: Mapping[str, Callable[[Plan], Iterator[Cells]]] = {
    "spectra": _spectra,
    "angles": _angles,
    "datasets": _datasets,
    "activation_study": _activation_study,
    "activations": _activations,
    "bounds": _bounds,
    "phase": _phase,
    "phase_laws": _phase_laws,
    "finite_width": _finite_width,
    "repairs": _repairs,
    "architectures": _architectures,
    "orthogonality": _orthogonality,
    "linearity": _linearity,
    "precision": _precision,
    "claim_experiments": _claim_experiments,
}


def _trained(payload: Path, plan: Plan, experiment: str) -> Iterator[tuple[str, Cells]]:
    """Yield the cells of an experiment's tables."""
    values = plan.experiments[experiment]

    def read(table: Table) -> list[dict[str, Any]]:
        path = plan.path("tables", table.name, f"{experiment}.parquet")
        rows: list[dict[str, Any]] = tables.read(payload / path, table).to_pylist()
        return rows

    def cells(table: str) -> Iterator[Cell]:
        axes = (values["datasets"], values["models"], values["activations"])
        critical = (
            _critical_rates(read(tables.get("training_kernels")))
            if table != "training_kernels"
            else {}
        )
        for dataset, model, activation in product(*axes):
            w = SimpleNamespace(experiment=experiment, dataset=dataset, model=model)
            settings = plan.training_settings(w)
            if table == "training_kernels" and not settings.has_initial_kernel(model):
                continue
            for depth in plan.training_depths(w):
                of = (dataset, model, activation, depth)
                if table == "training_kernels":
                    yield from ((experiment, *of, s, settings.width) for s in settings.seeds)
                    continue
                given, epochs = _settings(model, settings), settings.descent.evaluated
                rates = settings.absolute_rates(critical.get(of, {}))
                for (seed, relative), rate in rates.items():
                    network = (experiment, *of, seed, settings.width)
                    steps = (relative, settings.rate_unit, rate)
                    if table == "predictions":
                        yield (*network, *steps)
                    else:
                        yield from ((*network, *given, *steps, epoch) for epoch in epochs)

    columns = ("experiment", *_NETWORK, "seed", "width")
    yield "training_kernels", Cells(columns, cells("training_kernels"))
    of = (*columns, *_SETTINGS, "image", "decay_at", *_RATE, "epoch")
    yield "training", Cells(of, cells("training"))
    sizes = _sizes(plan, experiment)
    of_sizes = Cells(
        ("dataset", "model", "n", "batch_size"),
        ((*network, *size) for network, size in sizes.items()),
        lambda row: (row["dataset"], row["model"]) in sizes,
    )
    yield "training", of_sizes
    if values["predict"]:
        yield "predictions", Cells((*columns, *_RATE), cells("predictions"))
    if values["kernels_along"]:
        shared = (*columns, *_RATE, "epoch")
        points = Cells(
            (*shared, "n_train", "n"), _along(read(tables.get("training")), shared, plan)
        )
        yield "kernels_along_training", points


def _critical_rates(kernels: list[dict[str, Any]]) -> dict[Cell, dict[int, float]]:
    """Return the critical learning rate of each network's seeds."""
    found: dict[Cell, dict[int, float]] = {}
    for row in kernels:
        of_seed = found.setdefault(tuple(row[name] for name in _NETWORK), {})
        of_seed[row["seed"]] = row["critical_learning_rate"]
    return found


def _along(training: list[dict[str, Any]], columns: tuple[str, ...], plan: Plan) -> Iterator[Cell]:
    """Yield ``columns`` of the rows at which kernels are measured, and the sizes of their blocks.

    What has diverged is not measured.
    """

    @cache
    def measured(**network: str) -> tuple[int, set[int]]:
        settings = plan.training_settings(SimpleNamespace(**network))
        samples, points = settings.kernels_along or (0, 0)
        along = Along(samples=samples, points=points)
        return samples, {*along.epochs(settings.descent.evaluated)}

    for row in training:
        samples, epochs = measured(**{name: row[name] for name in ("experiment", *_MODEL)})
        if row["epoch"] in epochs and not row["diverged"]:
            yield (*(row[name] for name in columns), row["n"], min(row["n"], samples))


def _sizes(plan: Plan, experiment: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Return samples and batches of networks, where the config or the catalogue tells them."""
    values, found = plan.experiments[experiment], {}
    for dataset, model in product(values["datasets"], values["models"]):
        w = SimpleNamespace(experiment=experiment, dataset=dataset, model=model)
        settings = plan.training_settings(w)
        n = plan.shape(dataset)[0] if settings.samples == "all" else settings.samples
        if n is not None:
            n -= round(settings.test_share * n)
            batch = n if settings.batch_size == "all" else min(settings.batch_size, n)
            found[dataset, model] = n, batch
    return found


#: Columns of trainings that the config gives as they are.
_SETTINGS = (
    *("input_scale", "loss", "outputs", "momentum", "weight_decay", "decay_factor"),
    *("augmentation", "mixed_precision", "dtype", "tf32"),
)


def _settings(model: str, settings: TrainingSettings) -> Cell:
    """Return these, and what else the config gives of the networks of a model."""
    kind = kind_of(model)
    images = kind.needs_images or kind.family == "own" or settings.augmentation != "none"
    image = settings.image if images else None
    decays = " ".join(map(str, settings.decay_at)) or "none"
    given = [getattr(settings, name) for name in _SETTINGS]
    return (*given, " ".join(map(str, image or ["none"])), decays)

"""Do a bundle's files fit together: tables and declarations, files and jobs, results and config?"""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ntk_conditioning import tables
from ntk_conditioning.data.archives import LIMIT
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.checks import GRID
from ntk_workflow.plan import Plan
from ntk_workflow.plan.rows import AXES
from ntk_workflow.plan.run import STUDY_OF

#: Files of rows of a run, each of which a job makes.
MOST_ROWS = 100_000
#: What a damaged file of JSON may raise when it is looked into.
MALFORMED = (ValueError, LookupError, AssertionError, AttributeError, TypeError, RecursionError)


def require_tables(folder: Path) -> int:
    """Return how many tables lie in a folder and below, all as they are declared.

    Raises:
        BundleError: if a file is no Parquet, or its columns, types, units, keys or their order are
            not those that the package declares.
    """
    paths = sorted(folder.rglob("*.parquet"))
    for path in paths:
        try:
            _require_declared(path, _kind(path.relative_to(folder).parts))
        except (OSError, ValueError, pa.ArrowException) as error:
            problem = f"no Parquet file that can be read ({one_line(error)})"
            if isinstance(error, UserError):
                problem = str(error).removeprefix(f"{path}: ").removesuffix("; delete it")
            raise BundleError(f"{path.relative_to(folder).as_posix()}: {problem}") from None
    return len(paths)


def _kind(parts: tuple[str, ...]) -> str:
    """Return which table a file below results/ is, by its name or by its folder."""
    name = Path(parts[2]).stem if parts[1:2] == ("tables",) else parts[1]
    if name == "activation_study":
        return "conditioning" if parts[1] == "tables" else "spectra"
    return name


def _require_declared(path: Path, kind: str) -> None:
    facts = pq.read_metadata(path)
    packed, (free, ratio) = path.stat().st_size, LIMIT
    if 8 * facts.num_rows * facts.num_columns > free + ratio * packed:
        raise BundleError(f"{facts.num_rows} rows in {packed} bytes: a bomb?")
    metadata = facts.metadata or {}
    table = TABLES.get(metadata.get(b"table", b"").decode())
    if table is None:
        raise BundleError("no table that this version of the package declares")
    if table.name != kind:
        raise BundleError(f"a table of {table.name}, and by its name one of {kind}")
    data = tables.read(path, table)
    columns, declared = (
        [s.metadata, *(f.metadata for f in s)] for s in (data.schema, table.schema)
    )
    if columns != declared:
        raise BundleError(f"the columns of table {table.name} are of another version")
    for column in data.schema.names:
        if _has_nan(data[column]):
            raise BundleError(f"{column} is NaN in a row, and what has no number is missing")
    if not data.equals(tables.checked(table, data)):
        raise BundleError(f"its rows are not in the order of {', '.join(table.keys)}")


def _has_nan(column: pa.ChunkedArray) -> bool:
    values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def require_results(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` unless the results are those that the recorded config asks for."""
    if (count := _row_files(plan)) > MOST_ROWS:  # which would fill the memory with their names
        name, most = plan.path("record/config.yaml"), f"and a run has at most {MOST_ROWS}"
        raise BundleError(f"{name}: its lists ask for {count} files of rows, {most}")
    run = f"results/{plan.config['run']}"
    expected = {*plan.results(None), f"{run}/record/jobs.json"}
    expected |= {*plan.all_rows(None)} if plan.config["bundle"]["include_rows"] else set()
    present = {f"results/{name}" for name in files_by_name(payload / "results")}
    if missing := sorted(expected - present):
        raise BundleError(f"{missing[0]}: missing, though the recorded config asks for it")
    if extra := sorted(present - expected):
        raise BundleError(f"{extra[0]}: an extra file, which the recorded config does not ask for")


def _row_files(plan: Plan) -> int:
    """Return how many files of rows the recorded config asks for, or a few more."""
    config = plan.config
    grids = [
        [plan.section(STUDY_OF.get(table, GRID))[key] for key in axes]
        for table, axes in AXES.items()
        if table in plan.tables
    ]
    grids.append([config["datasets"], config["seeds"]])  # draws
    for values in plan.experiments.values():
        axes = [values[key] for key in ("datasets", "models", "activations", "seeds")]
        given = [values, *values["overrides"].values()]
        grids.append([*axes, {depth for each in given for depth in each.get("depths", ())}])
    return sum(math.prod(map(len, grid)) for grid in grids)


def require_provenance(folder: Path, jobs: str) -> int:
    """Return how many files of a bundle its jobs have written or read; of the results, all.

    Raises:
        BundleError: if ``jobs``, the record in ``folder``, cannot be read, does not name a result,
            or names another file than the one there.
    """
    try:
        files = json.loads((folder / jobs).read_text(encoding="utf-8"))["files"]
        expected = {name: facts["sha256"] for name, facts in files.items() if "sha256" in facts}
        sizes = {name: facts["bytes"] for name, facts in files.items() if "bytes" in facts}
    except MALFORMED:
        raise BundleError(f"{jobs}: damaged, it tells of no jobs") from None
    present = files_by_name(folder)
    for name, path in present.items():
        if name in expected and sha256(path) != expected[name]:
            raise BundleError(f"{name}: changed, it is not the file that its job has written")
        if name in sizes and path.stat().st_size != sizes[name]:
            line = f"{jobs}: has {sizes[name]!r} bytes of {name}, which has {path.stat().st_size}"
            raise BundleError(line)
        if name not in expected and name.startswith("results/") and name != jobs:
            raise BundleError(f"{name}: an extra file, of which {jobs} does not tell")
        source = name.removeprefix("workflow/")
        if source != name and source in expected and sha256(path) != expected[source]:
            raise BundleError(f"{name}: changed, it is not the {source} that a job has read")
    return len(present.keys() & expected.keys())

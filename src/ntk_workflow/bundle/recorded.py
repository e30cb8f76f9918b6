"""The plan of a bundle's run, from its recorded config. A bundle is data: none of it is run."""

from pathlib import Path, PurePosixPath

from ntk_conditioning.errors import UserError
from ntk_workflow import catalogue
from ntk_workflow.bundle import BundleError
from ntk_workflow.claims import papers as claim_files
from ntk_workflow.config import read_yaml, schema_errors, with_defaults
from ntk_workflow.plan import Plan
from ntk_workflow.plan.run import TABLES

#: This checkout, whose schemas, notebooks and programs a bundle is compared with.
ROOT = Path(__file__).resolve().parents[3]


def recorded_plan(payload: Path, run: str) -> Plan:
    """Return the plan of the run in a bundle, without the user's activations and networks.

    Unlike `Plan.from_config` this imports none of the Python files that the config names.

    Raises:
        BundleError: if the config, a catalogue or a paper in the bundle is not as this version's
            schemas say.
    """
    name = f"results/{run}/record/config.yaml"
    try:
        config, schema = read_yaml(payload / name), read_yaml(ROOT / "schemas/config.schema.yaml")
        if isinstance(config, dict):  # a published config leaves out where files are
            config = {"data_dir": "data", "mirror": None, **config}
        lines = [f"{name}: {line}" for line in schema_errors(config, schema)]
        if lines:
            raise BundleError("; ".join(lines))
        config = with_defaults(config, schema)
        if config["run"] != run:
            raise BundleError(f"{name}: run is {config['run']!r}, and its folder results/{run}")
        figures = read_yaml(ROOT / "notebooks/figures.yaml")
        if unknown := sorted(set(config["figures"]) - set(figures)):
            raise BundleError(f"{name}: figures has {unknown[0]}, which this version does not know")
        files = [str(payload / "workflow" / inside(each)) for each in config["catalogues"]]
        entries, lines = catalogue.load_catalogues(
            files, read_yaml(ROOT / "schemas/datasets.schema.yaml")
        )
        papers = payload / "workflow/papers"
        claims = claim_files.read(config["papers"] or (), folder=str(papers), tables=TABLES)
        plan = Plan(config, entries, figures, claims, ROOT)
        if lines := lines or [
            f"{name}: no catalogue has {n}" for n in plan.used_datasets if n not in entries
        ]:
            raise BundleError("; ".join(lines))
        for each in config["datasets"]:
            if plan.setting("balanced", each) and plan.setting("samples", each) == "all":
                raise BundleError(f"{name}: balanced, and {each} is whole (samples all)")
    except UserError as error:
        raise BundleError(str(error).replace(f"{payload}/", "")) from None
    except ValueError as error:
        raise BundleError("; ".join(str(error).replace(f"{payload}/", "").splitlines())) from None
    return plan


def inside(path: str) -> str:
    """Return where a file that a published config names lies in the bundled workflow.

    >>> inside("datasets.yaml"), inside("…/mine.yaml"), inside("../mine.yaml")
    ('datasets.yaml', 'elsewhere/mine.yaml', 'elsewhere/mine.yaml')
    """
    parts = PurePosixPath(path).parts
    outside = path.startswith("/") or ".." in parts or "…" in parts
    return f"elsewhere/{PurePosixPath(path).name}" if outside else path

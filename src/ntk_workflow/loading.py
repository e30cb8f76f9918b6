"""The run of a config: its files read, and the user's own imported."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from ntk_workflow.run import Run

BUILT_IN = frozenset(activations.names())


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

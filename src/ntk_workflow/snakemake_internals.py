"""What the workflow needs of Snakemake and its documentation does not promise; tests touch all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.io import IOFile
from snakemake.persistence.file import FilePersistence
from snakemake.utils import update_config

from ntk_workflow.config import Config, read_yaml, typed


def is_module(workflow: Any) -> bool:
    """Return whether the workflow that is being read is a module of another one."""
    return not workflow.modifier.is_main_snakefile()


def with_prefix(workflow: Any) -> Callable[[str], str]:
    """Return what puts the prefix of the module that is being read before a path, if it has one.

    Snakemake does so itself with inputs and outputs, but not with paths among the parameters.
    """
    modifier = workflow.modifier.path_modifier
    return lambda path: str(modifier.replace_prefix(path))


def read_config(workflow: Any, config: Config, folder: str = "") -> dict[str, Any]:
    """Return the config: config.yaml, the files of --configfile, and --config, the strongest last.

    Snakemake's own reads 010 as 8, and leaves the items of lists given to --config as texts.
    ``folder`` has the workflow's config.yaml; over it, a module has the ``config`` that the other
    workflow gives it, and nothing else.
    """
    whole: dict[str, Any] = read_yaml(f"{folder}config.yaml")
    if workflow.modifier.skip_configfile:
        update_config(whole, typed(config))
        return whole
    for name in workflow.overwrite_configfiles:
        update_config(whole, read_yaml(str(name)) or {})
    update_config(whole, typed(workflow.config_settings.config))
    return whole


def runs_one_job(workflow: Any) -> bool:
    """Return whether another Snakemake has planned, and started this one for a job of its own."""
    return not workflow.is_main_process


def gives_gpu(workflow: Any, rule: str) -> bool:
    """Return whether the profile, or --set-resources, gives GPUs to the jobs of a rule."""
    name = workflow.modifier.modify_rulename(rule)  # as a module's rule is called
    given = workflow.resource_settings.overwrite_resources.get(name, {})
    return "gpu" in given and str(given["gpu"].raw) != "0"


def records(checkout: Path) -> Callable[[str], Any]:
    """Return what tells of the job that wrote a file, as Snakemake noted it in a checkout.

    The job has ``rule``, ``input``, ``log``, ``params``, ``shellcmd``, ``starttime`` and
    ``endtime``, in seconds since 1970; there is None if nothing is known. Nothing is locked.
    """
    folder = checkout / ".snakemake"
    notes = FilePersistence(nolock=True, path=folder) if folder.is_dir() else None

    def record(path: str) -> Any:
        known = notes.metadata(IOFile(path)) if notes else None
        return known if known and known.rule else None

    return record

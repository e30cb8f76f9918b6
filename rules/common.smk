# What all rules share: the config, the run that it describes, and how programs are called.
#
# Needs: config.yaml with its overlays, the catalogues, notebooks/figures.yaml, papers/, schemas/.
# Makes: `config`, with defaults; `run`, about which the functions of src/ntk_workflow/plan tell what
#        jobs need; `python` and `home`, with which commands begin; helpers for inputs and parameters.

import os
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path


def unpacked(hosted):
    """Return a folder with all files of a hosted workflow: of these, Snakemake fetches a few."""
    repository = hosted.hosted_repo.repo
    folder = hosted.cache_path / "checkouts" / repository.commit(hosted.ref).hexsha
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            repository.git.archive(hosted.ref, output=f"{scratch}/all.tar")
            shutil.unpack_archive(f"{scratch}/all.tar", f"{scratch}/all")
            with suppress(OSError):  # another Snakemake was faster
                os.rename(f"{scratch}/all", folder)
    return folder


# Jobs are run by the Python that runs Snakemake, though its environment is not activated. The
# environment of a rule's `conda:` comes before it.
os.environ.update(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.getenv('PATH')}")

# `module:`, -s and --directory have Snakemake work in another folder than this checkout.
here = workflow.current_basedir
checkout = unpacked(here) if hasattr(here, "hosted_repo") else Path(here).parent
sys.path.insert(0, f"{checkout}/src")

from ntk_workflow import checks, jobs, listing, snakemake_internals
from ntk_workflow.config import options
from ntk_workflow.plan import datasets, figures, rows, trainings
from ntk_workflow.run import changed_keys, load
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

for path in (Path.cwd(), Path(".snakemake").absolute()):
    if path.exists() and not os.access(path, os.W_OK):
        advice = (
            "results, logs and notes go there: choose another by --directory FOLDER"
        )
        raise WorkflowError(f"{path} cannot be written, and {advice}")

# Files of the checkout begin with this; with nothing where one works in it, so that neither
# parameters nor commands depend on where it is. A prefix of a module is not put before "/".
is_module = snakemake_internals.is_module(workflow)
folder = "" if not is_module and checkout.samefile(Path.cwd()) else f"{checkout}/"


configfile: f"{folder}config.yaml"


# A module's config is another workflow's, not to be changed.
try:
    run = load(
        snakemake_internals.read_config(workflow, config, folder),
        source=checkout,
        home=folder,
        with_prefix=snakemake_internals.with_prefix(workflow),
        checked=snakemake_internals.runs_one_job(workflow),
    )
except ValueError as error:
    raise SystemExit(f"The configuration has mistakes:\n{error}") from None
config = run.config

if not run.checked and (keys := changed_keys(run)):
    logger.warning(
        f"results/{config['run']} is of another config ({', '.join(keys)}), and will change;"
        " to keep it: --config run=NAME"
    )


def grid(*keys):
    """Keys of the main grid as options, as they hold for the job's dataset."""
    return lambda w: options(config | config["overrides"].get(w.dataset, {}), *keys)


def draws(extension):
    """The samples of a row (npz), or their datasheets (json): one file, or one for each seed."""
    return lambda w: datasets.draw_files(run, w.dataset, extension)


def checked(study, *files):
    """Files of a study's job. Mistakes in its section end Snakemake here, and stop it alone."""

    def inputs(w):
        checks.require(run, study)
        return expand(files, **dict(w))

    return inputs


def activation(w):
    """A job's activation as options, with the files that register the user's."""
    return rows.activation_options(run, [w.activation])


def code(*programs, study={}):
    """The digest of a job's programs, of all they import, and of the user's files in use.

    These are of the job's own activation and model, or of those of a study.
    """

    def digest(w):
        used = study.get("activations") or [w.get("activation", "relu")]
        own = rows.user_activation_files(run, used)
        for name in study.get("models") or [w.get("model", "")]:
            own += [config["models"][name]["file"]] if name in run.models else []
        return rows.code(run, [program.format(**dict(w)) for program in programs], own)

    return digest


def resources_of(rule, **study):
    """Return the memory, minutes and seconds of a rule's jobs, from what they compute."""
    gpu = snakemake_internals.gives_gpu(workflow, rule)
    return jobs.resources_of(run, rule, gpu=gpu, **study)


# Jobs import the packages from the checkout, so that a cluster's node needs no install step. This
# is in each command, as a `shell.prefix` would be in those of a workflow that uses the module, too.
home = shlex.quote(folder).replace("{", "{{").replace("}", "}}") if folder else ""
python = f"PYTHONPATH={home}src PYTHONHASHSEED=0 python"
with_prefix = run.with_prefix  # where a file of the run is for a program


wildcard_constraints:
    run=config["run"],
    dataset="[a-z0-9_]+",
    draw=r"all|test|seed-\d+",
    activation="[a-z0-9_.-]+",
    architecture="[a-z0-9_]+",
    depth=r"\d+",
    per_seed=r"|/seed-\d+",  # with job_per_seed, a job trains one seed
    experiment="[a-z0-9_]+",
    model="[a-z0-9_]+",
    table="[a-z_]+",
    figure="[a-z0-9_]+/[a-z0-9_]+",

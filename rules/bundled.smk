# What is bundled: results, the workflow's source, and what the catalogue says of the data.
#
# Needs: common.smk, products.smk, TABLES, and all rules, whose logs are asked for when jobs are
# planned. Makes: functions for rules/bundle.smk.

import fnmatch
import hashlib

from snakemake.io import regex_from_filepattern, update_wildcard_constraints

# The workflow's source. Links stay outside: a bag has none.
SOURCE = [
    "CITATION.cff",
    "LICENSE",
    "Makefile",
    "README.md",
    "Snakefile",
    "config",
    "config.yaml",
    "datasets.yaml",
    "envs",
    "notebooks",
    "papers",
    "profiles",
    "pyproject.toml",
    "resources",
    "rules",
    "schemas",
    "scripts",
    "src",
]

# What Python leaves in it; scripts/bundle_run.py leaves it out.
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "*.egg-info")


def bundled_files(wildcards):
    """Return the results that are bundled; figures come with the notebooks that drew them."""
    notebooks = expand(
        "results/{run}/notebooks/{figure}.ipynb", run=RUN, figure=config["figures"]
    )
    tables = expand("results/{run}/tables/{table}.parquet", run=RUN, table=TABLES)
    figures = [file for figure in config["figures"] for file in figure_files(figure)]
    pages = expand("results/{run}/claims.{format}", run=RUN, format=["md", "html"])
    return [*tables, *figures, *notebooks, *pages, *record_files()]


def log_patterns():
    """Return for each rule the regular expression of its log, whose groups are the wildcards."""
    found = {}
    for known in workflow.rules:
        if len(known.log) == 1:
            log = update_wildcard_constraints(
                str(known.log[0]),
                known.wildcard_constraints,
                workflow.wildcard_constraints,
            )
            found[known.name] = regex_from_filepattern(log)
    return found


def own_files(key):
    """Return the user's own catalogues or activations that are not part of the source."""
    base = Path(workflow.basedir)
    found = [Path(base, file) for file in config[key]]
    named = [file.relative_to(base) if base in file.parents else file for file in found]
    return [str(file) for file in named if file.parts[0] not in SOURCE]


def source_digest(paths):
    """Return the sha256 of files and of all files in folders, but for what Python leaves there."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            left = any(fnmatch.filter(file.parts, pattern) for pattern in LEFT_OUT)
            if file.is_file() and not left:
                digest.update(f"{file.name} {provenance.path_digest(file)}".encode())
    return digest.hexdigest()


def catalogued_data():
    """Return what the catalogue says of the run's data: addresses, checksums, whom to cite."""
    told = {}
    for dataset in configuration.used_datasets(config):
        known = CATALOGUE[dataset]
        told[dataset] = {
            key: known[key]
            for key in ("title", "licence", "citation", "path")
            if key in known
        }
        if "homepage" in known:
            told[dataset]["url"] = known["homepage"]
        if "files" in known:
            told[dataset]["files"] = list(known["files"].values())
    return told

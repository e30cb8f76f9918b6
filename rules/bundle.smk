# Bundle: a run as one file that anyone can verify: snakemake bundle, or make bundle.
#
# Needs: all that the run makes. Makes: results/{run}/record/jobs.json, who made what, and
#        results/{run}/bundle/{run}.zip, an RO-Crate in a BagIt bag. scripts/verify_bundle.py
#        checks it. Neither is part of `all`.

import hashlib

from snakemake.io import (
    regex_from_filepattern,
    strip_wildcard_constraints,
    update_wildcard_constraints,
)

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
    "profiles",
    "pyproject.toml",
    "resources",
    "rules",
    "schemas",
    "scripts",
    "src",
]

# The claims, where there is a rule that makes them.
CLAIMS_PAGES = ["results/{run}/claims.md", "results/{run}/claims.html"]


# Snakemake's notes are beside it, and making a bundle takes seconds.
localrules:
    record_jobs,
    bundle_run,
    bundle,


def bundled_files(wildcards):
    """Return the results that are bundled; figures come with the notebooks that drew them."""
    notebooks = expand(
        "results/{run}/notebooks/{figure}.ipynb", run=RUN, figure=config["figures"]
    )
    tables = expand("results/{run}/tables/{table}.parquet", run=RUN, table=TABLES)
    figures = [file for figure in config["figures"] for file in figure_files(figure)]
    made = {
        strip_wildcard_constraints(str(file))
        for known in workflow.rules
        for file in known.output
    }
    pages = [page for page in CLAIMS_PAGES if page in made]
    return [
        *tables,
        *figures,
        *notebooks,
        *expand(pages, run=RUN),
        *record_files(),
    ]


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


def workflow_source():
    """Return the files and folders of the workflow's source, the user's own among them."""
    base = Path(workflow.basedir)
    own = [
        *workflow.overwrite_configfiles,
        *config["catalogues"],
        *config["activation_files"],
    ]
    found = [Path(base, file) for file in own]
    named = [file.relative_to(base) if base in file.parents else file for file in found]
    return [*SOURCE, *(str(file) for file in named if file.parts[0] not in SOURCE)]


def source_digest(paths):
    """Return the sha256 of files and of all files in folders, but for what Python leaves there."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
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


rule record_jobs:
    """Write down who made the run's files: code, inputs, outputs, device and times of every job."""
    input:
        files=bundled_files,
        cells=cell_files(),
    output:
        "results/{run}/record/jobs.json",
    log:
        "logs/{run}/record_jobs.log",
    conda:
        "../envs/environment.yaml"
    params:
        main=MAIN_GRID.to_json(),
        study=STUDY_GRID.to_json(),
        trainings=[grid.to_json() for grid in TRAINING_GRIDS],
        logs=lambda w: json.dumps(log_patterns(), sort_keys=True),
        code=code("scripts/record_jobs.py"),
    shell:
        "python scripts/record_jobs.py --results results/{wildcards.run} --files {input.files:q}"
        " --main-grid {params.main:q} --study-grid {params.study:q}"
        " --training-grids {params.trainings:q} --logs {params.logs:q} --output {output:q} 2> {log:q}"


rule bundle_run:
    """Put the run into one file: results, config, provenance, and the workflow that made it."""
    input:
        files=bundled_files,
        jobs="results/{run}/record/jobs.json",
    output:
        "results/{run}/bundle/{run}.zip",
    log:
        "logs/{run}/bundle_run.log",
    conda:
        "../envs/environment.yaml"
    params:
        engine=versions.libraries()["snakemake"],
        workflow=workflow_source(),
        # the source is not an input: to touch it must do nothing, to change it must count
        source=lambda w: source_digest(workflow_source()),
        data=lambda w: json.dumps(catalogued_data(), sort_keys=True),
        cells="--include-cells" if config["bundle"]["include_cells"] else "",
        code=code("scripts/bundle_run.py"),
    shell:
        "python scripts/bundle_run.py --run {wildcards.run} --engine {params.engine}"
        " --files {input.files:q} --jobs {input.jobs:q} --workflow {params.workflow:q}"
        " --data {params.data:q} {params.cells} --output {output:q} 2> {log:q}"


rule bundle:
    input:
        expand("results/{run}/bundle/{run}.zip", run=RUN),

# Datasets: original files into data/, prepared arrays into results/{run}/datasets/.
#
# Needs: the catalogue; a mirror for datasets that have files of their own.
# Makes: results/{run}/datasets/{dataset}.npz and a datasheet of it, {dataset}.json.
#
# Large files are `ancient`: what they contain is told by checksums, in the catalogue or in the
# datasheet, so that a new time stamp alone reruns nothing.

#
# The mirror comes by environment, not as a parameter: where a file came from cannot change what is
# in it.

CATALOGUED_FILES = {
    file["name"]: file
    for entry in CATALOGUE.values()
    for file in entry.get("files", {}).values()
}


rule download_file:
    """Fetch one file of a catalogued dataset and check it; shared by all runs."""
    output:
        f"{config['data_dir']}/{{file}}",
    log:
        "logs/download_file/{file}.log",
    wildcard_constraints:
        file="|".join(map(re.escape, CATALOGUED_FILES)) or "none",
    conda:
        "../envs/environment.yaml"
    params:
        urls=lambda w: CATALOGUED_FILES[w.file]["urls"],
        sha256=lambda w: CATALOGUED_FILES[w.file]["sha256"],
    shell:
        "python scripts/download_file.py --name {wildcards.file:q} --output {output:q}"
        ' --sha256 {params.sha256:q} --urls {params.urls:q} --mirror "$NTK_MIRROR" 2> {log:q}'


rule prepare_dataset:
    """Read, check and scale one dataset, and describe it."""
    input:
        unpack(raw_files),
    output:
        data="results/{run}/datasets/{dataset}.npz",
        datasheet="results/{run}/datasets/{dataset}.json",
    log:
        "logs/{run}/prepare_dataset/{dataset}.log",
    benchmark:
        "logs/{run}/prepare_dataset/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        entry=lambda w: json.dumps(CATALOGUE[w.dataset], sort_keys=True),
        parts=lambda w, input: [f"{part}={path}" for part, path in input.items()],
        samples=lambda w: setting("samples", w.dataset),
        seed=config["seeds"][0],
        content=own_content,
        code=code("scripts/prepare_dataset.py"),
    shell:
        "python scripts/prepare_dataset.py --dataset {wildcards.dataset} --entry {params.entry:q}"
        " --parts {params.parts:q} --samples {params.samples} --seed {params.seed}"
        " --output {output.data:q} --datasheet {output.datasheet:q} 2> {log:q}"

# Datasets: original files into data/, prepared arrays into results/{run}/datasets/.
#
# Needs: the catalogue; the network, or a mirror, for datasets that have files of their own.
# Makes: {data_dir}/{file}, shared by all runs;
#        results/{run}/datasets/{dataset}/{draw}.npz and a light datasheet of it, {draw}.json;
#        results/{run}/datasheets/{dataset}/{draw}.parquet, a row of the table of datasets.
#
# A draw is `all`, the whole dataset; `test`, its test samples; or `seed-{seed}`: where config
# `samples` is a number, every seed has a subset of its own, so that the spread over seeds contains
# the choice of samples.

# The run's own datasets come last: another catalogue entry may have another file of that name.
CATALOGUED_FILES = {
    file["name"]: file
    for dataset in [*CATALOGUE, *configuration.used_datasets(config)]
    for file in CATALOGUE[dataset].get("files", {}).values()
}


# Where the nodes of a cluster have no way out, the machine that submits has one.
localrules:
    download_file,


# The file itself is not an output: Snakemake would delete it before the job and after a failure,
# also when another run has just brought it or is reading it, and would let only one run at a time
# start. So the output is the word that it is in place and right, and goes when it has been used.
# Addresses and mirror come by environment or are left out of the parameters: where a file came from
# cannot change what is in it.
rule download_file:
    """Fetch one file of a catalogued dataset into the data folder, unless it is there; check it."""
    output:
        temp("results/{run}/downloads/{file}.json"),
    log:
        "logs/{run}/download_file/{file}.log",
    wildcard_constraints:
        file="|".join(map(re.escape, CATALOGUED_FILES)) or "none",
    conda:
        "../envs/environment.yaml"
    params:
        target=lambda w: f"{config['data_dir']}/{w.file}",
        urls=lambda w: CATALOGUED_FILES[w.file]["urls"],
        sha256=lambda w: CATALOGUED_FILES[w.file]["sha256"],
        bytes=lambda w: CATALOGUED_FILES[w.file].get("bytes", 0),
    shell:
        "python scripts/download_file.py --name {wildcards.file:q} --output {params.target:q}"
        " --sha256 {params.sha256:q} --bytes {params.bytes} --urls {params.urls:q}"
        ' --mirror "$NTK_MIRROR" --receipt {output:q} 2> {log:q}'


rule prepare_dataset:
    """Read and check one dataset, and draw its samples."""
    input:
        prepared_from,
    output:
        data="results/{run}/datasets/{dataset}/{draw}.npz",
        datasheet="results/{run}/datasets/{dataset}/{draw}.json",
    log:
        "logs/{run}/prepare_dataset/{dataset}/{draw}.log",
    benchmark:
        "logs/{run}/prepare_dataset/{dataset}/{draw}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        entry=entry,
        parts=parts,
        draw=draw_options,
        content=own_content,
        code=code("scripts/prepare_dataset.py"),
    shell:
        "python scripts/prepare_dataset.py --dataset {wildcards.dataset} --entry {params.entry:q}"
        " --parts {params.parts:q} {params.draw}"
        " --output {output.data:q} --datasheet {output.datasheet:q} 2> {log:q}"


rule describe_dataset:
    """Find norms, rank, equal samples and the smallest angle; apart, for it may take minutes."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/{draw}.npz"),
        datasheet="results/{run}/datasets/{dataset}/{draw}.json",
    output:
        "results/{run}/datasheets/{dataset}/{draw}.parquet",
    log:
        "logs/{run}/describe_dataset/{dataset}/{draw}.log",
    benchmark:
        "logs/{run}/describe_dataset/{dataset}/{draw}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/describe_dataset.py"),
    shell:
        "python scripts/describe_dataset.py --data {input.data:q} --datasheet {input.datasheet:q}"
        " --dataset {wildcards.dataset} --threads {threads} --output {output:q} 2> {log:q}"

# Datasets: original files into data/, prepared arrays into results/{run}/datasets/.
#
# Needs: the catalogue; the network, or a mirror, for datasets that have files of their own.
# Makes: {data_dir}/{file}, shared by all runs; results/{run}/features/, frames of speech;
#        results/{run}/datasets/{dataset}/{draw}.npz and a light datasheet of it, {draw}.json;
#        results/{run}/datasheets/{dataset}/{draw}.parquet, a row of the table of datasets.
#
# A draw is `all`, the whole dataset; `test`, its test samples; or `seed-{seed}`: where `samples` is
# a number, every seed has its own, so that the spread over seeds contains the choice of samples.

import re

downloads = datasets.downloads(run)


# The file itself is not an output: Snakemake would delete it before the job and after a failure,
# also when another run has just brought it or is reading it, and would let only one run at a time
# start. So the output is a temporary receipt, which goes when it has been used.
# Where the nodes of a cluster have no way out, the machine that submits has one: a local rule.
rule download_file:
    """Fetch one file of a catalogued dataset into the data folder, unless it is there; check it."""
    output:
        temp("results/{run}/downloads/{file}.json"),
    log:
        "logs/{run}/download_file/{file}.log",
    wildcard_constraints:
        file="|".join(map(re.escape, downloads)) or "none",
    localrule: True
    conda:
        "../envs/environment.yaml"
    params:
        # of what depends on the output Snakemake compares nothing: another place reruns nothing
        target=lambda w, output: f"{config['data_dir']}/{w.file}",
        urls=lambda w, output: downloads[w.file]["urls"],
        mirror=lambda w, output: f"--mirror={config['mirror'] or ''}",
        sha256=lambda w: downloads[w.file]["sha256"],
        bytes=lambda w: downloads[w.file].get("bytes", 0),
    shell:
        f"{python} {home}scripts/download_file.py"
        " --name {wildcards.file:q} --output {params.target:q} --sha256 {params.sha256:q}"
        " --bytes {params.bytes} --urls {params.urls:q} {params.mirror:q} --receipt {output:q}"
        " 2> {log:q}"


rule extract_speech_features:
    """Draw frames, spread over all speakers, and compute their filterbank features."""
    input:
        lambda w: datasets.original_files(run, w.dataset),
    output:
        features="results/{run}/features/{dataset}.npz",
        index="results/{run}/features/{dataset}.parquet",
    log:
        "logs/{run}/extract_speech_features/{dataset}.log",
    benchmark:
        "logs/{run}/extract_speech_features/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 4  # the archive is unpacked by one
    params:
        source=lambda w, output: datasets.local_files(run, w.dataset)["train_x"],
        corpus=lambda w: datasets.speech_options(run, w.dataset),
        seed=config["seeds"][0],
        content=lambda w: datasets.user_content(run, w.dataset),
        code=code("scripts/extract_speech_features.py"),
    shell:
        f"{python} {home}scripts/extract_speech_features.py"
        " --source {params.source:q} {params.corpus:q} --seed {params.seed} --threads {threads}"
        " --output {output.features:q} --index {output.index:q} 2> {log:q}"


rule prepare_dataset:
    """Read and check one dataset, and draw its samples."""
    input:
        lambda w: datasets.prepared_from(run, w.dataset, w.draw),
    output:
        data="results/{run}/datasets/{dataset}/{draw}.npz",
        datasheet="results/{run}/datasets/{dataset}/{draw}.json",
    log:
        "logs/{run}/prepare_dataset/{dataset}/{draw}.log",
    benchmark:
        "logs/{run}/prepare_dataset/{dataset}/{draw}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("prepare_dataset"),
    params:
        entry=lambda w: datasets.entry(run, w.dataset),
        catalogues=lambda w, output: config["catalogues"],
        parts=lambda w, output: datasets.parts(run, w.dataset, w.draw),
        draw=lambda w: datasets.draw_options(run, w.dataset, w.draw),
        content=lambda w: datasets.user_content(run, w.dataset),
        code=code("scripts/prepare_dataset.py"),
    shell:
        f"{python} {home}scripts/prepare_dataset.py"
        " --catalogues {params.catalogues:q} --dataset {wildcards.dataset}"
        " --parts {params.parts:q} {params.draw:q} --output {output.data:q}"
        " --datasheet {output.datasheet:q} 2> {log:q}"


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
    resources:
        **resources_of("describe_dataset"),
    params:
        code=code("scripts/describe_dataset.py"),
    shell:
        f"{python} {home}scripts/describe_dataset.py"
        " --data {input.data:q} --datasheet {input.datasheet:q} --dataset {wildcards.dataset}"
        " --threads {threads} --output {output:q} 2> {log:q}"

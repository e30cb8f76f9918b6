# Advice on a user's data: what to normalise first, which activation, how deep and how wide.
#
# Needs: results/{run}/datasets/{dataset}/all.npz
# Makes: results/{run}/advice/{dataset}.parquet and the page results/{run}/advice/{dataset}.html

# It also covers the user's activations.
own = [a for a in config["activations"] if rows.user_activation_files(run, [a])]


rule advise_dataset:
    """Advise on one dataset: a page in sentences, with a figure, and its table."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        table="results/{run}/advice/{dataset}.parquet",
        page="results/{run}/advice/{dataset}.html",
    log:
        "logs/{run}/advise_dataset/{dataset}.log",
    benchmark:
        "logs/{run}/advise_dataset/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("advise_dataset"),
    params:
        activations=lambda w: rows.activation_options(run, own) if own else [],
        code=code("scripts/advise_dataset.py", study={"activations": own}),
    shell:
        f"{python} {home}scripts/advise_dataset.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " --threads {threads} --output {output.table:q} --page {output.page:q} 2> {log:q}"


rule advice:
    """Advise on every dataset of the config: results/{run}/advice/{dataset}.html."""
    input:
        [run.path("advice", f"{dataset}.html") for dataset in config["datasets"]],

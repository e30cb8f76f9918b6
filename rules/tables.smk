# Tables: the rows of a run, put together: the public interface of a run.
#
# Needs: rows and datasheets. Makes: results/{run}/tables/{table}.parquet and, for each experiment,
#        results/{run}/tables/{table}/{experiment}.parquet


rule aggregate_table:
    """Collect a table from its rows, or summarise their kappa over blocks and seeds."""
    input:
        lambda w: rows.rows(run, w.table),
    output:
        "results/{run}/tables/{table}.parquet",
    log:
        "logs/{run}/aggregate_table/{table}.log",
    wildcard_constraints:
        table="|".join(rows.COLLECTED),
    conda:
        "../envs/environment.yaml"
    params:
        summarize=lambda w: "--summarize" if w.table in rows.SUMMARISED else "",
        code=code("scripts/aggregate_table.py"),
    shell:
        f"{python} {home}scripts/aggregate_table.py --table {{wildcards.table}}"
        " {params.summarize} --rows {input:q} --output {output:q} 2> {log:q}"


use rule aggregate_table as aggregate_training with:
    """Collect the trainings of one experiment, or the NTK where they begin."""
    input:
        lambda w: trainings.training_files(run, w.table, w.experiment),
    output:
        "results/{run}/tables/{table}/{experiment}.parquet",
    log:
        "logs/{run}/aggregate_training/{table}/{experiment}.log",
    wildcard_constraints:
        table="|".join(trainings.TRAINED_TABLES),


rule select_learning_rates:
    """Find the best learning rate of every network, and whether its grid reached far enough."""
    input:
        training="results/{run}/tables/training/{experiment}.parquet",
        kernels="results/{run}/tables/training_kernels/{experiment}.parquet",
    output:
        "results/{run}/tables/learning_rates/{experiment}.parquet",
    log:
        "logs/{run}/select_learning_rates/{experiment}.log",
    conda:
        "../envs/environment.yaml"
    params:
        criterion=lambda w: options(
            run.experiments[w.experiment], "criterion", "loss_level"
        ),
        code=code("scripts/select_learning_rates.py"),
    shell:
        f"{python} {home}scripts/select_learning_rates.py"
        " --training {input.training:q} --kernels {input.kernels:q} {params.criterion:q}"
        " --output {output:q} 2> {log:q}"

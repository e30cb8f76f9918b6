# Tables: the rows of a run, put together: the public interface of a run.
#
# Needs: rows and datasheets. Makes: results/{run}/tables/{table}.parquet and, for each experiment,
#        results/{run}/tables/{table}/{experiment}.parquet


rule aggregate_table:
    """Collect a table from its rows."""
    input:
        plan.rows(),
    output:
        "results/{run}/tables/{table}.parquet",
    log:
        "logs/{run}/aggregate_table/{table}.log",
    wildcard_constraints:
        table="spectra|angles|datasets|bounds|phase|finite_width|repairs|architectures|orthogonality|linearity",
    conda:
        "../envs/environment.yaml"
    params:
        code=plan.code("scripts/aggregate_table.py"),
    shell:
        f"{python} {home}scripts/aggregate_table.py"
        " --table {wildcards.table} --rows {input:q}"
        " --output {output:q} 2> {log:q}"


use rule aggregate_table as aggregate_training with:
    """Collect the trainings of one experiment, or the NTK where they begin."""
    input:
        plan.trainings,
    output:
        "results/{run}/tables/{table}/{experiment}.parquet",
    log:
        "logs/{run}/aggregate_training/{table}/{experiment}.log",
    wildcard_constraints:
        table="|".join(TRAINED_TABLES),


use rule aggregate_table as aggregate_experiments with:
    """Put the tables of all experiments together."""
    input:
        plan.experiment_tables,
    output:
        "results/{run}/tables/{table}.parquet",
    log:
        "logs/{run}/aggregate_experiments/{table}.log",
    wildcard_constraints:
        table="|".join(TRAINING_TABLES),


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
        criterion=plan.criterion,
        code=plan.code("scripts/select_learning_rates.py"),
    shell:
        f"{python} {home}scripts/select_learning_rates.py"
        " --training {input.training:q}"
        " --kernels {input.kernels:q} {params.criterion:q} --output {output:q} 2> {log:q}"


rule aggregate_conditioning:
    """Summarise kappa of the main grid over blocks and seeds, one row per curve point."""
    input:
        plan.rows("spectra"),
    output:
        "results/{run}/tables/conditioning.parquet",
    log:
        "logs/{run}/aggregate_conditioning.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=plan.code("scripts/aggregate_conditioning.py"),
    shell:
        f"{python} {home}scripts/aggregate_conditioning.py"
        " --rows {input:q} --output {output:q} 2> {log:q}"


use rule aggregate_conditioning as aggregate_activation_study with:
    """Summarise kappa of the activation study over blocks and seeds."""
    input:
        plan.rows("activation_study"),
    output:
        "results/{run}/tables/activation_study.parquet",
    log:
        "logs/{run}/aggregate_activation_study.log",


rule fit_width_slopes:
    """Fit power laws of orthogonality and linearity in the width."""
    input:
        orthogonality="results/{run}/tables/orthogonality.parquet",
        linearity="results/{run}/tables/linearity.parquet",
    output:
        "results/{run}/tables/width_slopes.parquet",
    log:
        "logs/{run}/fit_width_slopes.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=plan.code("scripts/fit_width_slopes.py"),
    shell:
        f"{python} {home}scripts/fit_width_slopes.py"
        " --orthogonality {input.orthogonality:q}"
        " --linearity {input.linearity:q} --output {output:q} 2> {log:q}"


rule fit_finite_width:
    """Fit power laws in depth over width to the spread of kappa over networks."""
    input:
        "results/{run}/tables/finite_width.parquet",
    output:
        "results/{run}/tables/finite_width_laws.parquet",
    log:
        "logs/{run}/fit_finite_width.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=plan.code("scripts/fit_finite_width.py"),
    shell:
        f"{python} {home}scripts/fit_finite_width.py"
        " --rows {input:q} --output {output:q} 2> {log:q}"

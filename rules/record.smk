# Record: what a run was asked for and with which software, so that it can be cited and repeated.
#
# Needs: config, programs, environment. Makes: results/{run}/record/config.yaml and versions.json


rule record_run:
    """Write down the run's config and the versions of the software."""
    output:
        config="results/{run}/record/config.yaml",
        versions="results/{run}/record/versions.json",
    log:
        "logs/{run}/record_run.log",
    conda:
        "../envs/environment.yaml"
    params:
        config=json.dumps(recorded_config(), sort_keys=True),
        workflow=workflow_digest(),
        # not passed on: the job has its own look, but it is to look again when they change
        libraries=json.dumps(versions.libraries()),
        code=code("scripts/record_run.py"),
    shell:
        "python scripts/record_run.py --config {params.config:q}"
        " --workflow-digest {params.workflow} --config-output {output.config:q}"
        " --versions-output {output.versions:q} 2> {log:q}"

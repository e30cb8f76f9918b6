# Speech: frames of a LibriSpeech subset, as features and labels.
#
# Needs: the subset's archive in the data folder, or the user's own archive or unpacked tree; with
# phone labels a folder of TextGrid or CTM files.
# Makes: results/{run}/features/{dataset}.npz and an index of its frames, {dataset}.parquet.


rule extract_speech_features:
    """Draw frames, spread over all speakers, and compute their filterbank features."""
    input:
        original_files,
    output:
        features="results/{run}/features/{dataset}.npz",
        index="results/{run}/features/{dataset}.parquet",
    log:
        "logs/{run}/extract_speech_features/{dataset}.log",
    benchmark:
        "logs/{run}/extract_speech_features/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 16
    params:
        subset=lambda w: CATALOGUE[w.dataset]["options"]["subset"],
        source=lambda w: local_files(w.dataset, "train")["train_x"],
        alignments=alignments,
        alignment_content=alignment_content,
        frames=speech_frames,
        settings=json.dumps(FEATURE_SETTINGS, sort_keys=True),
        seed=config["seeds"][0],
        content=own_content,
        code=code("scripts/extract_speech_features.py"),
    shell:
        "python scripts/extract_speech_features.py --source {params.source:q} --subset {params.subset:q}"
        " {params.alignments:q} --frames {params.frames} --settings {params.settings:q}"
        " --seed {params.seed} --threads {threads}"
        " --output {output.features:q} --index {output.index:q} 2> {log:q}"

# Samples: which files a dataset's cells are computed from.
#
# Needs: common.smk. Makes: input and parameter functions; no rules.


def is_speech(dataset):
    """Return whether a dataset consists of frames that are drawn from a speech corpus."""
    return CATALOGUE[dataset]["reader"] == configuration.SPEECH


def catalogued_files(dataset, split):
    """Return the catalogued files of a dataset's training or test samples, by part."""
    files = CATALOGUE[dataset].get("files", {})
    return {part: file for part, file in files.items() if part.startswith(split)}


def has_test_set(dataset):
    """Return whether a dataset has test samples of its own."""
    return bool(catalogued_files(dataset, "test"))


def split_of(draw):
    """Return which part of a dataset a draw is taken from."""
    return "test" if draw == "test" else "train"


def local_files(dataset, split):
    """Return where a dataset's training or test samples are read from, by part."""
    if "path" in CATALOGUE[dataset]:
        return {"train_x": CATALOGUE[dataset]["path"]}
    return {
        part: f"{config['data_dir']}/{file['name']}"
        for part, file in catalogued_files(dataset, split).items()
    }


def original_files(wildcards, split="train"):
    """Return what must be there before a dataset's training or test samples are read.

    For a download that is the word that its file is in place, see `download_file`.
    """
    if "path" in CATALOGUE[wildcards.dataset]:
        return [ancient(CATALOGUE[wildcards.dataset]["path"])]
    return [
        f"results/{wildcards.run}/downloads/{file['name']}.json"
        for file in catalogued_files(wildcards.dataset, split).values()
    ]


def prepared_from(wildcards):
    """Return the inputs of a prepared dataset."""
    if is_speech(wildcards.dataset):
        return [f"results/{wildcards.run}/features/{wildcards.dataset}.npz"]
    return original_files(wildcards, split_of(wildcards.draw))


def parts(wildcards, input):
    """Return the files of a dataset as options for the program that reads them."""
    if is_speech(wildcards.dataset):
        return [f"features={input[0]}"]
    files = local_files(wildcards.dataset, split_of(wildcards.draw))
    return [f"{part}={path}" for part, path in files.items()]


def entry(wildcards):
    """Return what a catalogue entry says of a dataset's content, as JSON.

    Addresses, titles and citations are left out: a new mirror must not recompute a run.
    """
    known = CATALOGUE[wildcards.dataset]
    kept = {
        key: known[key]
        for key in (
            "reader",
            "options",
            "path",
            "sha256",
            "shape",
            "scaling",
            "value_range",
        )
        if key in known
    }
    if "files" in known:
        kept["files"] = {
            part: {"name": file["name"], "urls": [], "sha256": file["sha256"]}
            for part, file in known["files"].items()
        }
    return json.dumps({"title": wildcards.dataset, **kept}, sort_keys=True)


@functools.cache
def content(path):
    """Return a digest of a user's file or folder, taken once each time Snakemake starts."""
    return provenance.path_digest(path)


def own_content(wildcards):
    """Return a digest of a user's own file or folder; the catalogue has those of all others."""
    path = CATALOGUE[wildcards.dataset].get("path")
    return content(path) if path else ""


def speech_frames(wildcards):
    """Return how many frames are drawn from a speech corpus."""
    return configuration.speech_frames(wildcards.dataset, config)


def alignments(wildcards):
    """Return the folder of a speech corpus' alignments as an option."""
    folder = CATALOGUE[wildcards.dataset]["options"].get("alignments")
    return [f"--alignments={folder}"] if folder else []


def alignment_content(wildcards):
    """Return a digest of the folder of a speech corpus' alignments."""
    folder = CATALOGUE[wildcards.dataset]["options"].get("alignments")
    return content(folder) if folder else ""


def draw_options(wildcards):
    """Return the options that say which samples of a dataset make up a draw."""
    if wildcards.draw == "all":
        return []
    if wildcards.draw == "test":
        return ["--split test"]
    samples = ["--samples", str(setting("samples", wildcards.dataset))]
    balanced = ["--balanced"] if setting("balanced", wildcards.dataset) else []
    return [*samples, "--seed", wildcards.draw.removeprefix("seed-"), *balanced]


def draws(wildcards):
    """Return what a job's seeds are computed from: a draw for each of them, or the whole dataset."""
    return cells.draws(config["seeds"], drawn=is_drawn(wildcards.dataset))


def prepared_data(wildcards):
    """Return the prepared samples of a job's seeds; the datasheets tell when they change."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    return [ancient(f"{folder}/{draw}.npz") for draw in draws(wildcards)]


def prepared_datasheets(wildcards):
    """Return the datasheets of `prepared_data`, with their checksums."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    return [f"{folder}/{draw}.json" for draw in draws(wildcards)]

# Experiments: what a training is given, from the config.
#
# Needs: common.smk, samples.smk. Makes: input and parameter functions; no rules.


def experiment_value(key):
    """Return a function that gives a job a value of its experiment."""
    return lambda w: experiment_setting(key, w.experiment, w.dataset, w.model)


def trained_on(wildcards):
    """Return the inputs of a training: all samples, and the test samples if there are any."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    draws = ["all", "test"] if has_test_set(wildcards.dataset) else ["all"]
    return {
        "data": ancient(f"{folder}/all.npz"),
        "datasheets": [f"{folder}/{draw}.json" for draw in draws],
    } | ({"test": ancient(f"{folder}/test.npz")} if len(draws) == 2 else {})


def test_option(wildcards, input):
    """Return the file of a training's test samples as an option, or the share that is held out."""
    if has_test_set(wildcards.dataset):
        return [f"--test={input.test}"]
    return [f"--test-share={EXPERIMENTS[wildcards.experiment]['test_share']}"]


def image_option(wildcards):
    """Return the shape of a training's images as an option, where torch's modules take them."""
    if not architectures.MODELS[wildcards.model].by_modules:
        return []
    image = datasets.known_image(CATALOGUE[wildcards.dataset])
    return ["--image", *image] if image else []


def descent_options(wildcards):
    """Return what goes beyond plain gradient descent as options."""
    values = EXPERIMENTS[wildcards.experiment]
    plain = configuration.training_defaults(SCHEMA)
    options = []
    for key in configuration.MODULE_KEYS:
        if values[key] != plain[key]:
            option, value = f"--{key.replace('_', '-')}", values[key]
            given = value if isinstance(value, list) else [value]
            options += [option, *([] if value is True else given)]
    return options


def relative_rates(wildcards):
    """Return an experiment's learning rates in units of the critical rate, if it gives them so."""
    rates = experiment_value("learning_rates")(wildcards)
    if rates == "auto":
        return learning_rates.AUTO[EXPERIMENTS[wildcards.experiment]["loss"]]
    return rates["critical"] if isinstance(rates, dict) else None


def training_kernel(wildcards):
    """Return the table of critical rates of a training that needs them."""
    if relative_rates(wildcards) is None:
        return []
    return "results/{run}/training_kernels/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet"


def rate_options(wildcards, input):
    """Return the learning rates of a training as options."""
    relative = relative_rates(wildcards)
    if relative is not None:
        return ["--relative-rates", *relative, f"--kernel={input.kernel}"]
    rates = experiment_value("learning_rates")(wildcards)
    return ["--learning-rates", *rates]

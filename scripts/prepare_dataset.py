"""Read one dataset of the catalogue, check it, draw samples and write it as one NumPy archive.

The archive keeps the values of the source; they are scaled when it is loaded. Beside it goes a
datasheet in JSON. The same arguments and files give the same bytes.
"""

import json
from pathlib import Path

import numpy as np

from ntk_conditioning import files
from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.data import datasets, prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.errors import UserError
from ntk_workflow import cli
from ntk_workflow.catalogue import dataset_source, read_entry


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser, number = cli.Parser(description=__doc__), cli.positive_integer_or_all
    add = parser.add_argument
    add("--dataset", required=True, help="its name in the catalogue")
    add("--catalogues", required=True, nargs="+", metavar="FILE", help="files that describe it")
    add("--parts", nargs="*", default=[], type=cli.named_path, metavar="PART=FILE", help="files")
    add("--split", choices=["train", "test"], default="train", help="which part to prepare")
    add("--samples", type=number, default="all", help="how many samples to draw, or all")
    add("--balanced", action="store_true", help="draw equally many samples of each class")
    add("--seed", type=cli.seed, help="seed of the draw")
    add("--output", required=True, type=Path, help="the archive to write (.npz)")
    add("--datasheet", required=True, type=Path, help="its datasheet (.json)")
    args = parser.parse_args(argv)

    if (args.samples == "all") != (args.seed is None):
        raise UserError("a draw needs --samples N and --seed S, the whole dataset neither")
    source = dataset_source(args.dataset, read_entry(args.catalogues, args.dataset))
    parts = dict(args.parts)
    for part in sorted(parts.keys() & source.sha256.keys()):  # also files put in place by hand
        files.require_sha256(parts[part], source.sha256[part])
    dataset = datasets.read(source, parts, split=args.split)
    available, rows = len(dataset.x), np.arange(len(dataset.x))
    if args.samples != "all":
        if args.balanced and dataset.y is None:
            raise UserError(f"{source.name} has no labels, so a balanced draw has no classes")
        classes, rng = dataset.y if args.balanced else None, seed_stream(args.seed)
        rows = draw(source.name, available, args.samples, generator=rng, classes=classes)
        dataset = dataset.rows(rows)
    sheet = datasets.describe(dataset, available=available, seed=args.seed, balanced=args.balanced)
    cli.log.info("%s, %s: %d of %d samples", source.name, args.split, len(rows), available)
    equal = find_duplicates(prepared.scaled(dataset))
    if equal.pairs and args.split == "train":
        line = f"{source.name}: {equal.in_words(rows)}; no kernel with them has a kappa: "
        line += "remove all but one, or set exclude_duplicates: true for angles alone"
        cli.log.warning(line)
        print(line, flush=True)  # on the user's terminal, where logs are not shown
    prepared.save_prepared(args.output, dataset)
    files.write_text(args.datasheet, json.dumps(sheet, indent=2) + "\n")

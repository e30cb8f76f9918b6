"""Read one dataset of the catalogue, check it, draw samples and write it as one NumPy archive.

The archive keeps the values of the source; they are scaled when it is loaded. Beside it goes a
datasheet in JSON. The same arguments and files give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning import files
from ntk_conditioning.data import datasets, prepared
from ntk_conditioning.data.subsets import seed_stream
from ntk_workflow import cli
from ntk_workflow.catalogue import dataset_source, read_entry

log = cli.logger(__file__)


def parser() -> cli.Parser:
    arguments = cli.Parser(prog="prepare_dataset.py", description=__doc__)
    add = arguments.add_argument
    add("--dataset", required=True, metavar="NAME", help="its name in the catalogue")
    add("--catalogues", required=True, nargs="+", metavar="FILE", help="files that describe it")
    add(
        "--parts",
        nargs="*",
        default=[],
        type=cli.named_path,
        metavar="PART=FILE",
        help=f"its files by part: {', '.join(datasets.PARTS)}; an entry's path is train_x",
    )
    add("--split", choices=["train", "test"], default="train", help="which part to prepare")
    add(
        "--samples",
        type=cli.positive_integer_or_all,
        default="all",
        metavar="N",
        help="how many samples to draw, or all",
    )
    add("--balanced", action="store_true", help="draw equally many samples of each class")
    add("--seed", type=cli.seed, help="seed of the draw")
    add("--output", required=True, type=Path, metavar="FILE.npz", help="the archive to write")
    add("--datasheet", required=True, type=Path, metavar="FILE.json", help="its datasheet")
    return arguments


@cli.run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    if args.balanced and args.samples == "all":
        raise cli.UsageError("--balanced draws samples, so it needs --samples N, not all")
    if (args.samples == "all") != (args.seed is None):
        raise cli.UsageError(
            "a draw needs both --samples N and --seed S, the whole dataset neither"
        )
    source = dataset_source(args.dataset, read_entry(args.catalogues, args.dataset))
    parts = dict(args.parts)
    if len(parts) < len(args.parts):
        raise cli.UsageError("--parts gives a part twice; give each at most once")
    for part, path in parts.items():
        if part in source.sha256:  # also files put in place by hand
            files.require_sha256(path, source.sha256[part])
    dataset = datasets.read(source, parts, split=args.split)
    available = len(dataset.x)
    if args.samples != "all":
        stream = seed_stream(args.seed)
        dataset = datasets.subset(dataset, args.samples, generator=stream, balanced=args.balanced)
    sheet = datasets.describe(dataset, available=available, seed=args.seed, balanced=args.balanced)
    log.info(
        "%s, %s: %d of %d samples, %d features of type %s, %s, scaling %s",
        source.name,
        args.split,
        sheet.n,
        sheet.available,
        sheet.d,
        sheet.dtype,
        "no labels" if sheet.classes is None else f"{sheet.classes} classes",
        sheet.scaling,
    )
    prepared.save_prepared(args.output, dataset)
    datasets.save_datasheet(args.datasheet, sheet)
    return 0


if __name__ == "__main__":
    sys.exit(main())

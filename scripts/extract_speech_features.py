"""Draw frames from a LibriSpeech subset and write their features and labels.

The features are an archive (.npz) with arrays x (frames, bins * neighbours, float32) and y (int64);
a table beside it tells the speaker, chapter, utterance and frame of each row. The corpus is read
twice, first for the lengths of its utterances. The same arguments and files give the same bytes.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ntk_conditioning import files, tables
from ntk_conditioning.data.speech.alignments import find_alignments
from ntk_conditioning.data.speech.extraction import draw_frames, extract, survey
from ntk_conditioning.data.speech.features import FeatureSettings
from ntk_conditioning.seeds import generator
from ntk_workflow import cli
from ntk_workflow.progress_bars import progress
from ntk_workflow.yaml_files import named_values


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser, number = cli.Parser("threads", description=__doc__), cli.positive_integer_or_all
    add = parser.add_argument
    add("--source", required=True, type=Path, help="the subset's tar.gz, or an unpacked folder")
    add("--subset", required=True, help="e.g. train-clean-100")
    add("--alignments", type=Path, help="folder of TextGrids; labels are then phones")
    add("--frames", type=number, default="all", help="how many to draw, or all")
    add("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="of the features")
    add("--seed", type=cli.seed, default=0, help="seed of the draw")
    add("--output", required=True, type=Path, help="features to write (.npz)")
    add("--index", required=True, type=Path, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    settings = FeatureSettings(**named_values(args.settings, option="--settings"))
    corpus = (args.source, args.subset, settings)
    alignments = find_alignments(args.alignments) if args.alignments else None
    cli.log.info("device cpu, %d threads, float32, %s", args.threads, args.subset)
    shown = partial(progress, unit="utterance")
    counts, short, unaligned = survey(*corpus, alignments=alignments, progress=shown)
    total = len(counts) + short + unaligned
    cli.log.info("left out: %d without a frame, %d unaligned", short, unaligned)
    available = sum(counts.values())
    n = available if args.frames == "all" else args.frames
    cli.log.info("drawing %d of %d frames", n, available)
    drawn = draw_frames(counts, n, generator=generator(args.seed, "data"))
    read = {"alignments": alignments, "threads": args.threads}
    x, y, index, names = extract(*corpus, drawn, **read, progress=partial(shown, total=total))
    with files.atomic(args.output) as temporary, temporary.open("xb") as stream:
        np.savez(stream, allow_pickle=False, x=x, y=y)
    schema = tables.get("frames").schema
    table = pa.table([*index.T, y, np.array(names)[y]], names=schema.names)
    tables.write(args.index, "frames", table.cast(schema))

"""Estimate what remains to be run: core-hours, GPU-hours, the longest job and the memory.

Nothing is run: the jobs are those of Snakemake's dry run, their sizes those of the config. Where
jobs of the run have finished, the estimate follows their benchmark files. With a cluster's profile
it is what would be submitted. Targets, --configfile and --config are passed on to Snakemake.
"""

import sys
from pathlib import Path

from ntk_workflow.cli import Argv, Parser, program
from ntk_workflow.estimate import plan, report


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--profile", help="where the run would be: slurm, profiles/gpu")
    args, others = parser.parse_known_args(argv)

    arguments = [*others, *(["--profile", args.profile] if args.profile else [])]
    left = plan(arguments)
    finished = left.head(0)
    if any(Path("logs").glob("*/**/*.tsv")):
        # as if nothing had been done, to know what finished jobs were estimated at
        finished = plan([*arguments, "--forceall"])
        finished = finished[~finished["benchmark"].isin(left.get("benchmark", []))]
    profile = Path(args.profile or "profiles/default", "config.yaml")
    cluster = profile.exists() and "executor" in profile.read_text("utf-8")
    sys.stdout.write("\n".join(report(left, finished, cluster=cluster)) + "\n")

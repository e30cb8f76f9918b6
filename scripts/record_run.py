"""Record what a run was asked for and with which software: its config and the versions.

Neither file names a user, a machine or a folder outside the checkout, so both can be published.
"""

import json
import platform
from pathlib import Path

import yaml

from ntk_conditioning.files import write_text
from ntk_workflow.cli import Argv, Parser, program
from ntk_workflow.config import redact_paths
from ntk_workflow.provenance import versions
from ntk_workflow.yaml_files import named_values

HEADING = """\
# The config of this run: every key with the value that was in force, but for those that only say
# where files are. It is an overlay itself; after --configfile it asks for the same run.
"""


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--config", nargs="+", required=True, metavar="KEY=VALUE", help="the config")
    add("--workflow-digest", required=True, help="digest of all programs")
    add("--config-output", type=Path, required=True, help="config to write (.yaml)")
    add("--versions-output", type=Path, required=True, help="versions to write (.json)")
    args = parser.parse_args(argv)

    config = redact_paths(named_values(args.config, option="--config"), Path.cwd())
    text = yaml.safe_dump(config, allow_unicode=True, default_flow_style=None, width=100)
    software = {
        "ntk-conditioning": {"version": versions.PROJECT, "code": args.workflow_digest},
        "python": platform.python_version(),
        "libraries": versions.libraries(),
        "system": platform.system(),  # and architecture, but not which machine it is
        "architecture": platform.machine(),
    }
    write_text(args.config_output, HEADING + text)
    write_text(args.versions_output, json.dumps(software, indent=2) + "\n")

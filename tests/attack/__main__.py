"""The whole attack, an hour of two cores; its tables go into docs/security.md: `make attack`."""

import argparse
import subprocess
import sys
from pathlib import Path

from docs.build.marked import with_part
from tests.attack import forgeries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/security.md"


def output(*words: str) -> tuple[list[str], int]:
    """Return the lines that a part prints, shown as they come, and its exit status."""
    command = [sys.executable, "-m", *words]
    lines = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line.strip())
    return lines, process.returncode


def in_markdown(lines: list[str]) -> str:
    """Return the table among printed lines, with the rule below its head, and what was accepted."""
    head, *rows = [line for line in lines if line.startswith("|")]
    table = [head, "| --- " * (head.count("|") - 1) + "|", *rows]
    accepted = [f"- {line}" for line in lines if line.startswith(("accepted: ", "crashed: "))]
    return "\n".join([*table, *([""] if accepted else []), *accepted]) + "\n"


def raw_columns() -> str:
    """Return what nothing else in a bundle determines, as a table, by the reason."""
    places: dict[str, list[str]] = {}
    for place, why in forgeries.RAW.items():
        places.setdefault(why, []).append(f"`{place}`")
    rows = [f"| {why} | {', '.join(found)} |" for why, found in places.items()]
    return "\n".join(["| raw, because they are | columns |", "| --- | --- |", *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"inputs": "tests.attack.inputs", "forgeries": "tests.attack.forgeries"}
    parts |= {"kills": "tests.attack.kills"}
    parser.add_argument(
        "parts", nargs="*", choices=[[], *parts], metavar="PART", help=", ".join(parts)
    )
    parser.add_argument("--bundle", default="results/demo/bundle/demo.zip", help="to be forged")
    args = parser.parse_args()
    wanted = args.parts or [*parts]
    if "forgeries" in wanted and not Path(ROOT, args.bundle).is_file():
        parser.error(f"{args.bundle}: no bundle to forge; make it by make demo bundle")
    status, tables = 0, {"raw": raw_columns()}
    for part in wanted:
        lines, code = output(parts[part], *(["--bundle", args.bundle] * (part == "forgeries")))
        status |= code
        tables[part] = in_markdown(lines)
    for part, table in tables.items():
        PAGE.write_text(with_part(PAGE, part, table), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())

"""The whole attack, an hour of two cores; its tables go into docs/security.md: `make attack`."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/security.md"
START, END = "<!-- {}: written by make attack -->\n", "<!-- end -->\n"


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
    """Return the table among printed lines, with the rule below its head."""
    head, *rows = [line for line in lines if line.startswith("|")]
    return "\n".join([head, "| --- " * (head.count("|") - 1) + "|", *rows]) + "\n"


def written(page: str, part: str, text: str) -> str:
    """Return the page with another text between the marks of a part."""
    start = START.format(part)
    head, found, rest = page.partition(start)
    assert found, f"{PAGE.name} has no {start}"
    return f"{head}{start}\n{text}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", default="results/demo/bundle/demo.zip", help="to be forged")
    args = parser.parse_args()
    parts = {
        "inputs": ["tests.attack.inputs"],
        "forgeries": ["tests.attack.forgeries", "--bundle", args.bundle],
        "kills": ["tests.attack.kills"],
    }
    status = 0
    for part, words in parts.items():
        lines, code = output(*words)
        status |= code
        PAGE.write_text(
            written(PAGE.read_text(encoding="utf-8"), part, in_markdown(lines)), "utf-8"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())

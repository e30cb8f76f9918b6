"""Where the time of the tests goes, into tests/durations.md.

make test PYTEST_ARGS=--junitxml=times.xml; python -m tests.durations times.xml
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.report import table

MOST = 40  # files and tests that are listed
PAGE = Path(__file__).with_name("durations.md")
HEADING = """\
# Durations of the tests

Seconds of each file and of the slowest tests, with what they set up, as one run of `make test` had
them, with two workers on two cores. The finished run, which is made once for all, counts for the
test that comes first, and for those that wait for it; written by `python -m tests.durations`.
"""


def main(path: str) -> None:
    files: dict[str, list[float]] = defaultdict(list)
    tests: dict[str, float] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = str(case.get("classname")).removeprefix("tests.")
        seconds = float(case.get("time", 0))
        files[name].append(seconds)
        tests[f"{name}::{case.get('name')}"] = seconds
    total = sum(map(sum, files.values()))
    longest = sorted(files.items(), key=lambda file: -sum(file[1]))[:MOST]
    slowest = sorted(tests.items(), key=lambda test: -test[1])[:MOST]
    rows = [(f"{sum(each):.1f}", len(each), f"`{name}`") for name, each in longest]
    lines = [HEADING, f"{len(tests):,} tests, {total:,.0f} seconds of two workers.", ""]
    lines += table(("seconds", "tests", "file"), rows)
    lines += table(("seconds", "test"), [(f"{s:.1f}", f"`{name}`") for name, s in slowest])
    PAGE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What a benchmark leaves: results/NAME.json, results/NAME.png and a section of README.md."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from ntk_conditioning.files import atomic, write_text

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Target:
    """What was asked of a figure before it was measured."""

    what: str
    sense: Literal["at least", "at most"]
    bound: float
    measured: float | None
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the median reaches it; None where nothing was measured."""
        if self.measured is None:
            return None
        if self.sense == "at least":
            return self.measured >= self.bound
        return self.measured <= self.bound


def target_rows(targets: Iterable[Target]) -> list[dict[str, Any]]:
    """Return targets for a JSON file."""
    return [{**asdict(target), "met": target.met} for target in targets]


def target_table(targets: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of targets, none where there are none."""
    verdicts = {True: "met", False: "**not met**", None: "not measured"}
    rows = [
        (
            target["what"],
            f"{target['sense']} {target['bound']:g}{target['unit']}",
            "" if target["measured"] is None else f"{target['measured']:.3g}{target['unit']}",
            verdicts[target["met"]],
        )
        for target in targets
    ]
    return table(("target", "", "measured", ""), rows) if rows else []


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown, with an empty line after it.

    >>> table(("a", "b"), [(1, 2)])
    ['| a | b |', '| --- | --- |', '| 1 | 2 |', '']
    """
    cells = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(map(str, row))} |" for row in cells), ""]


def spread_text(values: dict[str, float], digits: int = 3) -> str:
    """Return median (least … largest).

    >>> spread_text({"median": 2.0, "min": 1.0, "max": 3.5})
    '2 (1 … 3.5)'
    """
    middle, low, high = (number(values[key], digits) for key in ("median", "min", "max"))
    return f"{middle} ({low} … {high})"


def number(value: float, digits: int = 3) -> str:
    """Return a value in so many digits, or in whole thousands.

    >>> number(0.12345), number(3021.4)
    ('0.123', '3,021')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{digits}g}"


def write(
    name: str, title: str, result: dict[str, Any], section: str, figure: Figure, folder: Path
) -> None:
    """Write the three, each whole or not at all; the numbers first."""
    results = folder / "results"
    text = json.dumps(rounded(result), indent=2, ensure_ascii=False)
    write_text(results / f"{name}.json", text + "\n")
    with atomic(results / f"{name}.png") as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else "# Benchmarks\n"
    picture = f"![{title}](results/{name}.png)\n"
    write_text(readme, with_section(text, name, title, f"{section.rstrip()}\n\n{picture}"))


def with_section(text: str, name: str, title: str, section: str) -> str:
    """Return ``text`` with a benchmark's section replaced, or added at the end under a heading.

    >>> old = "# B\\n<!-- x: written by python -m benchmarks x -->\\nold<!-- end of x -->\\nrest\\n"
    >>> new = with_section(old, "x", "X", "new\\n")
    >>> new.splitlines()[2:]
    ['', 'new', '', '<!-- end of x -->', 'rest']
    """
    start = f"<!-- {name}: written by python -m benchmarks {name} -->\n"
    end = f"<!-- end of {name} -->\n"
    if start not in text:
        text = f"{text.rstrip()}\n\n## {title}\n\n{start}{end}"
    head, _, rest = text.partition(start)
    _, found, tail = rest.partition(end)
    if not found:  # the end was lost: what follows is not ours to delete
        tail = rest
    return f"{head}{start}\n{section}\n{end}{tail}"


def rounded(value: Any, digits: int = 6) -> Any:
    """Return a value with its floats rounded to so many digits.

    >>> rounded({"a": [1.23456789e-9, 2]})
    {'a': [1.23457e-09, 2]}
    """
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {str(key): rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value

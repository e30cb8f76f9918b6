"""The page of all figures, made from notebooks/: titles, pictures, captions and commands."""

import re
from itertools import groupby
from pathlib import Path

import yaml
from latex2mathml.converter import convert

from ntk_workflow.listing import CATEGORIES, target, title

ROOT = Path(__file__).resolve().parents[2]


def page() -> str:
    """Return the page in Markdown; formulas are MathML, which needs no script."""
    names = yaml.safe_load((ROOT / "notebooks/figures.yaml").read_text(encoding="utf-8"))
    parts = [
        "# Figures",
        "`make demo` draws all of them; each command draws one, and runs only what that needs.",
    ]
    for paper, figures in groupby(names, key=lambda name: name.split("/")[0]):
        parts.append(f"## {CATEGORIES[paper].split(maxsplit=1)[1]}")
        parts += map(_figure, figures)
    return "\n\n".join(parts) + "\n"


def _figure(name: str) -> str:
    caption = (ROOT / f"notebooks/{name}.rst").read_text(encoding="utf-8")
    caption = re.sub(r"\*\*.*?\*\* ", "", " ".join(caption.split()), count=1)
    parts = [f"### {title(name)}", f"`{name}`"]
    found = ROOT.glob(f"docs/{target(name)}_*.png")
    pictures = {path.stem.rpartition("_")[2]: path.name for path in found}
    commands = {"demo": f"snakemake {target(name)}"}
    for config in pictures:
        if (ROOT / f"config/{config}.yaml").exists():
            commands[config] = f"snakemake {target(name)} --configfile config/{config}.yaml"
    for config, command in commands.items():
        if config in pictures:
            parts.append(f"![{command}]({pictures[config]})")
        parts.append(f"```\n{command}\n```")
    parts.append(re.sub(r":math:`([^`]*)`", lambda formula: convert(formula[1]), caption))
    return "\n\n".join(parts)

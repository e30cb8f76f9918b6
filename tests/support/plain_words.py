"""Refuse phrases of our own making where plain English has words: `make lint` runs it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PHRASES = {  # with what to write instead
    r"\bone's own\b|\bno full rank\b": "your, a user's; rank-deficient",
    r"\b(?:gradients?|derivatives?) by (?:all|the|some|its|a|W\w*|weights)\b": "with respect to",
    r"\bat right angles\b": "orthogonal",
    r"\b(?:of|has|have) one norm\b": "of equal norm",
    r"\b(?:is|are|was|were) told\b": "is reported, says",
    r"\bgoes with\b": "correlates with",
    r"\bno mean zero\b|\bis another one\b": "biased; differs",
    r"\bknows nothing\b": "leaves unchanged, does not depend on",
    r"\bchanged in meaning\b": "changed in a way that can affect the result",
    r"\bin (?:its|their) own steps\b": "at equal multiples of 2/λ_max",
    r"\bthe word that\b|\bcome to hold\b": "the report that; flip",
    r"\bwhat would be right\b": "the remedy",
    r"\bwhere someone is looking\b": "in a terminal",
}
#: Written by programs, or the history of names.
LEFT_OUT = r"CHANGELOG\.md|docs/(?:claims_verdicts|gallery)\.md|plain_words\.py|\.lock$"
KINDS = (".py", ".md", ".smk", ".yaml", ".ipynb", ".rst", ".j2")

if __name__ == "__main__":
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    problems = []
    for name in names:
        if name.endswith(KINDS) and not re.search(LEFT_OUT, name) and (ROOT / name).exists():
            for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
                for phrase, instead in PHRASES.items():
                    if found := re.search(phrase, line):
                        problems.append(f"{name}:{number}: {found[0]!r}; plainer: {instead}")
    sys.exit("\n".join(problems) if problems else 0)

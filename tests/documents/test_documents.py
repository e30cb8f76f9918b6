"""What the documents say of files, rules, commands and examples is so."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted(
    path
    for folder in (".", "docs", "results", "profiles", "resources")
    for path in ROOT.glob(f"{folder}/*.md")
)
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which names what is gone
FOLDERS = (
    "benchmarks|config|docs|envs|examples|notebooks|papers|profiles|resources|rules|schemas|scripts"
    "|src|tests"
)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def rules() -> set[str]:
    """Return the names of all rules, with the targets of figures."""
    command = [sys.executable, "-m", "snakemake", "--list-rules"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    return set(re.findall(r"^(\w+)(?: \(|$)", done.stdout, re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#\s]+)", text_of(page))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page):
    paths = re.findall(rf"(?:`|\s)((?:{FOLDERS})/[\w./-]*\w)(?=[`\s,;:\])])", text_of(page))
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_has_a_target(page):
    text = text_of(page)
    phony = set(re.findall(r"^([a-z][\w -]*):(?!=)", text_of(ROOT / "Makefile"), re.M))
    made = {name for names in phony for name in names.split()}
    assert set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.M)) <= made
    asked = re.findall(r"(?:`|^)snakemake (?:--profile \w+ )?([a-z]\w+)", text, re.M)
    assert set(asked) <= rules()


def test_every_file_of_a_run_is_made_by_the_rule_that_the_page_names():
    text = text_of(ROOT / "results/README.md")
    lines = re.findall(r"^\| (`.*?) \| ([^|]*) \| ", text.partition("**Checkpoints.**")[0], re.M)
    named = {rule for _, cell in lines for rule in re.findall(r"`(\w+)`", cell)}
    assert named <= rules()
    source = "\n".join(map(text_of, ROOT.glob("rules/*.smk")))
    with_outputs = set(
        re.findall(r"^rule (\w+):\n(?:(?!\nrule ).)*?\n    output:", source, re.M | re.S)
    )
    assert with_outputs - named == set()


def test_every_page_is_in_the_index():
    index = text_of(ROOT / "docs/README.md")
    assert all(
        f"]({page.name})" in index for page in ROOT.glob("docs/*.md") if page.name != "README.md"
    )


def test_the_readme_is_short():
    assert len(text_of(README).splitlines()) <= 130


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("own_data", "own_data.yaml"),
        ("own_data", "own_catalogue.yaml"),
        ("own_activation", "own_activation.yaml"),
        ("own_activation", "swish.py"),
    ],
)
def test_examples_are_shown_as_they_are(page, name):
    text = text_of(ROOT / f"docs/{page}.md")
    shown = re.search(rf"\(\.\./examples/{re.escape(name)}\).*?```\w*\n(.*?)```", text, re.DOTALL)
    assert shown
    assert shown[1] == text_of(ROOT / "examples" / name)


def test_the_readmes_python_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", text_of(README), re.DOTALL)
    exec(code, {})
    finite, limit = map(float, capsys.readouterr().out.split())
    # 300 samples in 20 dimensions: both are well conditioned, the finite network less so
    assert 1 < limit < finite < 100 * limit


def test_the_shown_claim_is_one_of_the_papers():
    (shown,) = yaml.safe_load(
        re.findall(r"```yaml\n(.*?)```", text_of(ROOT / "docs/claims.md"), re.DOTALL)[0]
    )
    claims = yaml.safe_load(text_of(ROOT / "papers/liu2023relu.yaml"))["claims"]
    (real,) = [claim for claim in claims if claim["name"] == shown["name"]]
    spelled_out = {"statement": shown["statement"]}  # there it is "The same ..."
    assert {key: real[key] for key in shown} | spelled_out == shown


def test_no_verdicts_are_counted_by_hand():
    counted = re.compile(r"\b\d+ (?:of \w+ )?(?:claims )?(?:hold|fail|are not tested)\b")
    assert [page.name for page in CURRENT if counted.search(text_of(page))] == []

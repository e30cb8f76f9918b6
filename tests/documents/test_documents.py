import re
from pathlib import Path

import pytest
import yaml

from docs.build import __main__ as build
from ntk_workflow.claims.papers import load
from ntk_workflow.listing import target, title

ROOT = Path(__file__).parents[2]
FOLDERS_OF_PAGES = (".", ".github", "docs", "results", "profiles", "resources")
PAGES = sorted(path for folder in FOLDERS_OF_PAGES for path in ROOT.glob(f"{folder}/*.md"))
FOLDERS = "benchmarks|config|docs|envs|examples|notebooks|papers|profiles|resources|rules|schemas"
FOLDERS += "|scripts|src|tests"


def text_of(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


FIGURES = yaml.safe_load(text_of("notebooks/figures.yaml"))
RULES = "\n".join(map(text_of, [ROOT / "Snakefile", *ROOT.glob("rules/**/*.smk")]))
NAMES = {*re.findall(r"^(?:rule|use rule \w+ as) (\w+)(?::| with:)", RULES, re.M)}
NAMES |= {*map(target, FIGURES)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_path_and_command_of_a_page_leads_somewhere(page):
    text = text_of(page)
    links = re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    if page.name in ("CHANGELOG.md", "claims_verdicts.md"):  # what is gone; counts by programs
        return
    counted = r"\b\d+ (?:of \w+ )?(?:claims )?(?:hold|fail|are not tested)\b"
    assert not re.search(counted, text)
    paths = re.findall(rf"(?:`|\s)((?:{FOLDERS})/[\w./-]*\w)(?=[`\s,;:\])])", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert [path for path in missing if "toy" not in path] == []  # the example of CONTRIBUTING.md
    phony = re.findall(r"^([a-z][\w -]*):(?!=)", text_of("Makefile"), re.M)
    made = {name for names in phony for name in names.split()}
    assert set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.M)) <= made
    targets = re.findall(r"(?:`|^)snakemake (?:--profile \w+ )?([a-z]\w+)", text, re.M)
    assert set(targets) <= NAMES


def test_every_file_of_a_run_is_made_by_the_rule_that_the_page_names():
    text = text_of("results/README.md")
    lines = re.findall(r"^\| (`.*?) \| ([^|]*) \| ", text.partition("**Checkpoints.**")[0], re.M)
    named = {rule for _, cell in lines for rule in re.findall(r"`(\w+)`", cell)}
    assert named <= NAMES
    with_outputs = re.findall(r"^rule (\w+):\n(?:(?!\nrule ).)*?\n    output:", RULES, re.M | re.S)
    assert set(with_outputs) <= named


EXAMPLES = dict.fromkeys(("own_data.yaml", "own_catalogue.yaml"), "own_data")
CODE = ("own_activation.yaml", "swish.py", "own_network.yaml", "own_network.py")
EXAMPLES |= dict.fromkeys(CODE, "own_network")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_shown_as_they_are(name):
    block = rf"\(examples/{re.escape(name)}\).*?```\w*\n(.*?)```"
    shown = re.findall(block, text_of(f"docs/{EXAMPLES[name]}.md"), re.DOTALL)
    assert shown == [text_of(f"docs/examples/{name}")]


def test_the_documentation_is_short_and_both_its_indexes_have_every_page():
    """Verdicts and figures, which programs write from a run, are not counted."""
    pages = {page.name for page in ROOT.glob("docs/*.md")}
    assert {*re.findall(r"\]\((\w+\.md)\)", text_of("docs/README.md"))} == pages - {"README.md"}
    assert pages <= {*re.findall(r"docs/(\w+\.md)", text_of("docs/mkdocs.yml"))}
    counted = pages - {"claims_verdicts.md", "gallery.md"}
    assert len(counted) <= 20
    assert sum(len(text_of(f"docs/{page}").split()) for page in counted) <= 17_000
    readme = re.sub(r"<!--.*?-->|(?<=\])\([^)]*\)", "", text_of("README.md"))
    assert len(re.findall(r"\S*\w\S*", readme)) <= 1000


def test_pages_show_what_their_python_prints(capsys):
    snippet = r"```python\n(.*?)```\n\n```\n(.*?)```"
    pages = text_of("docs/faq.md") + text_of("docs/training.md")
    snippets = re.findall(snippet, pages, re.DOTALL)
    assert len(snippets) == pages.count("```python") > 0
    for code, printed in snippets:
        exec(code, {"__name__": "page"})
        assert capsys.readouterr().out == printed
    for page in ("README.md", "docs/ntk_of_your_network.md"):
        ((code, printed),) = re.findall(snippet, text_of(page), re.DOTALL)
        exec(code, {})
        texts = (capsys.readouterr().out, printed)
        kappas = [float(re.search(r"kappa ([\d.]+)", text)[1]) for text in texts]
        assert kappas[0] == pytest.approx(kappas[1], rel=1e-3)


@pytest.mark.parametrize("name", [*build.FILES, *build.PARTS])
def test_what_programs_write_is_as_they_write_it_now(name):
    path, text = build.written(name)
    page, limit = text_of(path), r"\d\.\de\d+"
    if name == "precision":  # a processor's rounding decides between limits two decades apart
        limits = zip(re.findall(limit, page), re.findall(limit, text), strict=True)
        assert all(1e-3 < float(a) / float(b) < 1e3 for a, b in limits)
        page, text = (re.sub(limit, "", written) for written in (page, text))
    assert page == text, f"run: PYTHONPATH=src:scripts python -m docs.build '{name}'"


def locked(name: str) -> set[str]:
    """Return the pins of a lock; pip asks for their hashes itself."""
    return set(re.findall(r"^[a-z0-9.-]+==[^ ;\\]+", text_of(f"envs/{name}.lock"), re.M))


def test_every_requirement_is_locked_and_conda_has_the_same_pins():
    """Torch is pinned alone, for it comes from another index."""
    assert locked("run") <= locked("develop")
    for name in ("run", "develop", "docs"):
        asked = re.findall(r"^[a-z][^<>=\[ \n]*", text_of(f"envs/{name}.in"), re.M)
        assert {*asked} <= {pin.split("==")[0] for pin in locked(name)}
    packages = yaml.safe_load(text_of("envs/environment.yaml"))["dependencies"]
    by_pip = packages.pop()["pip"]
    pins = {re.sub("=+", "==", package) for package in packages + by_pip}
    others = pins - locked("run")
    assert others == {"python==3.11", "pip", "pytorch==2.13.0"}
    assert re.findall("^[^#].*", text_of("envs/torch.txt"), re.M) == ["torch==2.13.0"]


def test_every_claim_has_its_verdict_and_pages_link_to_verdicts_that_exist():
    papers = [load(path) for path in ROOT.glob("papers/*.yaml")]
    names = {f"{claim.paper}.{claim.name}" for paper in papers for claim in paper.claims}
    assert {*re.findall(r'<a id="([^"]+)"', text_of("docs/claims_verdicts.md"))} == names
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    assert {*re.findall(r"claims_verdicts\.md#([\w.]+)", pages)} <= names


def test_the_gallery_has_every_figure_with_its_command_and_pictures():
    page = text_of("docs/gallery.md")
    for figure in FIGURES:
        assert f"### {title(figure)}" in page
        assert re.search(rf"`snakemake {target(figure)}` · \d+ s", page)
    shown = {*re.findall(r"\]\((.*?\.png)\)", page)}
    assert shown <= {path.name for path in ROOT.glob("docs/*.png")}
    demo = {path.name for path in ROOT.glob("docs/*_demo.png")}
    assert demo <= shown, "a picture is called docs/<target>_demo.png"
    assert ":math:" not in page

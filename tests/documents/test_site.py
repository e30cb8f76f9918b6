"""What the site of the documentation has, without building it; `make docs` checks its links."""

import re
from pathlib import Path

import yaml

from docs.site import gallery, rooms
from ntk_workflow.figures.listing import target

ROOT = Path(__file__).parents[2]


def test_the_navigation_has_every_page_of_the_documentation():
    nav = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")}
    assert pages - {*re.findall(r"docs/\w+\.md", nav)} == set()


def test_the_gallery_has_every_figure_with_its_command_and_pictures():
    page = gallery.page()
    for figure in yaml.safe_load((ROOT / "notebooks/figures.yaml").read_text(encoding="utf-8")):
        assert f"`{figure}`" in page
        assert f"```\nsnakemake {target(figure)}\n```" in page
    shown = re.findall(r"\]\((.*?\.png)\)", page)
    assert {f"docs/{name}" for name in shown} <= {f"docs/{p.name}" for p in ROOT.glob("docs/*.png")}
    demo = {path.name for path in ROOT.glob("docs/*_demo.png")}
    assert demo <= {*shown}, "a picture is called docs/<target>_demo.png"
    assert ":math:" not in page


def test_a_diagram_becomes_rows_in_which_rooms_import_from_rows_below():
    drawn = rooms.drawn("a\n\n```mermaid\nflowchart TB\n    top --> mid\n    top --> low\n```\n")
    rows = re.findall(r'<div class="row">(.*?)</div></div>', drawn)
    assert [re.findall(r"<b>(\w+)</b>", row) for row in rows] == [["top"], ["mid", "low"]]

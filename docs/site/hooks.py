"""Hooks of mkdocs, see docs/mkdocs.yml: which pages the site has, and where they come from.

The site is laid out as the repository is, so that links between its pages lead to the same files in
both. What pages link to besides pages, a config or a module, gets a page of its own: `config.yaml`
is shown by `config.yaml.md`, and a module of `ntk_conditioning` by its reference, `{module}.py.md`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import rooms
from latex2mathml.converter import convert
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/ntk_conditioning"
LANGUAGES = {".py": "python", ".yaml": "yaml", ".cff": "yaml", ".json": "json", ".ipynb": "json"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_config(config):
    """Add the reference of the package to the navigation, a page for each module."""
    config.nav.insert(-1, {"API": _modules(PACKAGE)})
    return config


def on_files(files, config):
    """Add the pages of the navigation, and the pictures and other files that they link to."""
    pages = dict.fromkeys(_leaves(config.nav))
    linked = {target: None for page in pages for target in _targets(page)}
    for path in pages | linked:
        if (ROOT / path).is_file() and (path in pages or path.endswith(".png")):
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        elif path in pages or (ROOT / path.removesuffix(".md")).is_file():
            level = InclusionLevel.INCLUDED if path in pages else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, path, content=_text(path), inclusion=level))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links to files of the repository at the pages that show them, and draw diagrams."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(match):
        return posixpath.relpath(_target(page.file.src_uri, match[0]), folder or ".")

    markdown = LINK.sub(shown, markdown)
    if page.file.src_uri == "docs/gallery.md":  # MathML needs no script
        markdown = re.sub(r"\$([^$\n]+)\$", lambda formula: convert(formula[1]), markdown)
    return rooms.drawn(markdown)


def _modules(folder: Path) -> list:
    """Return the navigation of a package: its own page, then those of its packages and modules."""
    name = folder.relative_to(ROOT).as_posix()
    packages = sorted(path.parent for path in folder.glob("*/__init__.py"))
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    return [
        f"{name}/index.md",
        *({package.name: _modules(package)} for package in packages),
        *({module: f"{name}/{module}.py.md"} for module in modules),
    ]


def _leaves(nav) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
        return
    for item in nav.values() if isinstance(nav, dict) else nav:
        yield from _leaves(item)


def _target(page: str, link: str) -> str:
    """Return the page, or the picture, that shows what a link leads to."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if (ROOT / path).is_dir():
        return f"{path}/index.md"
    return path if path.endswith((".md", ".png")) else f"{path}.md"


def _targets(page: str) -> set[str]:
    return {_target(page, link) for link in LINK.findall(_text(page))}


def _text(page: str) -> str:
    """Return the Markdown of a page, written or generated."""
    path = ROOT / page
    if path.is_file():
        return path.read_text(encoding="utf-8")
    if path.is_relative_to(PACKAGE):
        name = re.sub(r"^src/|/index\.md$|\.py\.md$", "", page).replace("/", ".")
        return f"---\ntitle: {name}\n---\n::: {name}\n"
    source = path.with_suffix("")
    text = source.read_text(encoding="utf-8")
    head = f"---\nsearch: {{exclude: true}}\n---\n# {source.relative_to(ROOT)}\n"
    return f"{head}\n````{LANGUAGES[source.suffix]}\n{text}````\n"

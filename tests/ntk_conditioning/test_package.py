"""The package as `pip install` brings it: light, typed, and with the quickstart of the README."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import ntk_conditioning
from ntk_conditioning.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OTHER_NAMES = {"pillow": "PIL", "pyyaml": "yaml", "scikit-learn": "sklearn"}
OTHER_NAMES |= {"vl-convert-python": "vl_convert"}
BLOCKED = """
import sys
sys.modules.update(dict.fromkeys({absent}))  # Python takes None for a module that is not there
"""
ENDING = """
import ntk_conditioning
import snakemake_logger_plugin_console  # by every Snakemake there is
print(ntk_conditioning.__version__, ntk_conditioning.__file__)
"""


def name_of(requirement: str) -> str:
    return re.split(r"[<>=\\[]", requirement)[0]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy: setuptools leaves files beside its sources."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignore)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (built,) = folder.glob("*.whl")
    return built


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    subprocess.run(command, check=True)


def test_the_quickstart_runs_with_the_wheel_and_its_few_dependencies(wheel, tmp_path):
    pip("install", "--target", str(tmp_path / "installed"), str(wheel))
    installed = {name_of(line) for line in PROJECT["dependencies"]}
    absent = {name_of(line) for line in EXTRAS["workflow"]} - installed - {"jinja2"}  # torch has it
    absent = {OTHER_NAMES.get(name, name.replace("-", "_")) for name in absent}
    pages = ("README.md", "docs/ntk_of_your_network.md")
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in pages]
    quickstarts = [re.search(r"```python\n(.*?)```", text, re.DOTALL)[1] for text in texts]
    program = "\n".join([BLOCKED.format(absent=absent), *quickstarts, ENDING])
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "installed/ntk_conditioning/__init__.py"
    assert done.stdout.splitlines()[-1] == f"{__version__} {file}"


def test_the_wheel_has_types_and_every_file_that_is_read(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = {*opened.namelist()}
    assert f"ntk_conditioning-{__version__}" in wheel.name
    kept = {".py", ".pyi", ".yaml", ".j2", ".typed"}
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in kept]
    assert {path.relative_to(ROOT / "src").as_posix() for path in sources} <= names


def test_names_of_the_package_are_there_without_anything_imported_before():
    names = {name for name in ntk_conditioning.__all__ if hasattr(ntk_conditioning, name)}
    assert names == {"__version__", "condition", "ntk", "ntk_operator"}
    program = "import sys, ntk_conditioning; print('torch' in sys.modules, 'numpy' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, env=environment, text=True) == "False False\n"


def test_extras_are_the_requirements_of_the_environments():
    run, develop, docs = map(requirements, ("run", "develop", "docs"))
    text = (ROOT / "envs/run.in").read_text(encoding="utf-8")
    torch = {*text.split("# torch's own")[1].splitlines()[1:]}
    assert {*PROJECT["dependencies"], *EXTRAS["workflow"]} == run - torch | {"torch"}
    assert {*EXTRAS["dev"]} == develop | {"ntk-conditioning[workflow]"}
    assert {*EXTRAS["docs"]} == docs


def requirements(name: str) -> set[str]:
    """Return what a set asks for by itself."""
    lines = (ROOT / f"envs/{name}.in").read_text(encoding="utf-8").splitlines()
    return {re.split(r" +#", line)[0] for line in lines if re.match(r"\w", line)}


def test_the_files_that_say_what_this_is_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    names = [author["name"] for author in citation["authors"]]
    assert names == [author["name"] for author in PROJECT["authors"]]
    assert citation["version"] == __version__
    assert citation["abstract"] == PROJECT["description"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["license"] == PROJECT["license"]

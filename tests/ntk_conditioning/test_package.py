"""The package as `pip install` brings it: light, typed, and with the quickstart of the README."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ntk_conditioning.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys({absent}))  # Python takes None for a module that is not there
import ntk_conditioning
assert not {{"numpy", "torch"}} & {{*sys.modules}}  # nothing is imported before it is used
from ntk_conditioning.kernels import infinite
_ = [infinite.ntk([[1, 0], [0, 1]], depth=2, activation=name) for name in ("leaky_relu", "erf")]
assert "torch" not in sys.modules
{quickstarts}
from ntk_conditioning import __version__, condition, ntk, ntk_operator
import snakemake_logger_plugin_console  # by every Snakemake there is
print(__version__, ntk_conditioning.__file__)
"""


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    subprocess.run(command, check=True)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_wheel_has_every_file_and_the_quickstart_runs_with_its_few_dependencies(tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    # a copy: setuptools leaves files beside its sources
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source))
    (wheel,) = tmp_path.glob(f"ntk_conditioning-{__version__}-*.whl")
    pip("install", "--target", str(installed), str(wheel))
    kept = {".py", ".pyi", ".yaml", ".j2", ".typed"}
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in kept]
    assert all((installed / path.relative_to(ROOT / "src")).is_file() for path in files)

    extra = {Requirement(line).name for line in EXTRAS["workflow"]}
    extra -= {"jinja2", *(Requirement(line).name for line in PROJECT["dependencies"])}  # torch's
    modules = packages_distributions().items()
    absent = [name for name, of in modules if extra & {*map(canonicalize_name, of)}]
    texts = map(text_of, ("README.md", "docs/ntk_of_your_network.md"))
    quickstarts = [re.search(r"```python\n(.*?)```", text, re.DOTALL)[1] for text in texts]
    program = PROGRAM.format(absent=absent, quickstarts="\n".join(quickstarts))
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    file = installed / "ntk_conditioning/__init__.py"
    assert done.stdout.splitlines()[-1] == f"{__version__} {file}"


def requirements(name: str) -> set[str]:
    lines = text_of(f"envs/{name}.in").splitlines()
    return {re.split(r" +#", line)[0] for line in lines if re.match(r"\w", line)}


def test_the_files_that_say_what_this_is_and_what_it_needs_agree():
    run, develop, docs = map(requirements, ("run", "develop", "docs"))
    torch = {*text_of("envs/run.in").split("# torch's own")[1].splitlines()[1:]}
    assert {*PROJECT["dependencies"], *EXTRAS["workflow"]} == run - torch | {"torch"}
    assert {*EXTRAS["dev"]} == develop | {"ntk-conditioning[workflow]"}
    assert {*EXTRAS["docs"]} == docs
    citation = yaml.safe_load(text_of("CITATION.cff"))
    names = [author["name"] for author in citation["authors"]]
    assert names == [author["name"] for author in PROJECT["authors"]]
    expected = {name: PROJECT[name] for name in ("keywords", "license")}
    expected |= {"version": __version__, "abstract": PROJECT["description"]}
    assert citation.items() >= expected.items()

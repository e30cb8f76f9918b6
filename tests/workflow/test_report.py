"""The report: one file, made of the finished run, that a browser shows without asking anybody."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image

from tests.browser import Browser, browser
from tests.workflow.conftest import CI

pytestmark = pytest.mark.slow

TABLES = {"Datasheets": "digits_sphere", "Condition numbers": "infinite_ntk"}
TABLES["Best learning rates"] = "fig3"
SIZE = (
    "(i => i && i.complete && i.naturalWidth && [i.naturalWidth, i.naturalHeight])"
    "(document.querySelector('#app img[src^=\"data:image/png\"]'))"
)
EYE, DETAILS = 1, 2  # the signs in a row of results


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
    """The report of the finished run, as `make report` makes it, but in another place."""
    make = ["make", "--dry-run", "report", "VERBOSE=1", "CONFIG=config/ci.yaml"]
    planned = subprocess.run(make, cwd=finished.folder, text=True, capture_output=True, check=True)
    commands = planned.stdout.replace("\\\n", "").splitlines()
    run, command = (shlex.split(line)[1:] for line in commands if line.startswith("snakemake"))
    assert run[-2:] == command[-2:] == list(CI)
    place = command.index("results/ci/report.html")
    path = tmp_path_factory.mktemp("report") / "report.html"
    done = finished.run(*command[:place], str(path), *command[place + 1 :])
    assert "Missing metadata" not in done.stderr
    return path


@pytest.fixture
def page(report, tmp_path):
    with browser(tmp_path / "profile") as found:
        found.open(report)
        yield found
        assert found.console_errors() == []
        remote, local = found.remote_requests()
        assert remote == []
        assert local > 0


def go_to(page: Browser, *names: str) -> None:
    page.click("//nav//nav//li[1]/a")
    for name in names:
        page.click(f'//nav//li//a[normalize-space()="{name}"]')


def show(page: Browser, row: str, what: int) -> None:
    page.click(f'//nav//tr[td[normalize-space()="{row}"]]//div[@role="group"]/a[{what}]')


@pytest.mark.browser
def test_every_figure_is_shown_as_it_is_with_its_caption(page, finished):
    expected = yaml.safe_load((finished.folder / "notebooks/figures.yaml").read_text())
    shown = []
    for category, subcategories in page.value("categories").items():
        for subcategory, paths in subcategories.items():
            # Of a single figure there is no menu.
            names = [category, subcategory] if len(subcategories) > 1 else [category]
            for path in filter(lambda path: path.endswith(".png"), paths):
                figure = path.removeprefix("results/ci/figures/").removesuffix(".png")
                shown.append(figure)
                go_to(page, *names)
                require_figure(page, figure, finished)
    assert sorted(shown) == sorted(expected)


def require_figure(page: Browser, figure: str, finished) -> None:
    row = Path(figure).name.replace("_", " ")
    show(page, row, EYE)
    with Image.open(finished.folder / f"results/ci/figures/{figure}.png") as image:
        assert tuple(page.value(SIZE)) == image.size
    show(page, row, DETAILS)
    text = page.value("document.querySelector('nav .prose').innerText")
    caption = (finished.folder / f"notebooks/{figure}.rst").read_text()
    assert text.startswith(re.match(r"\*\*(.+?)\*\*", " ".join(caption.split()))[1])
    assert len(text) > 0.5 * len(caption)
    assert not [word for word in (":math:", "System Message") if word in text]


@pytest.mark.browser
def test_tables_claims_config_and_versions_are_pages(page):
    for table, word in TABLES.items():
        go_to(page, "7 Data and tables")
        show(page, table, EYE)
        assert word in in_frame(page, table)
    go_to(page, "2 Claims")
    show(page, "Claims", EYE)
    assert "Theorem 4.5, Eq. (11)" in in_frame(page, "Claims: run ci")
    go_to(page, "8 The run")
    show(page, "Config and versions", EYE)
    text = in_frame(page, "Config and versions")
    assert "kernel_size: 48" in text
    assert '"torch": "2.13.0' in text


def in_frame(page: Browser, heading: str) -> str:
    frame = page.value("document.querySelector('iframe')")
    page.driver.switch_to.frame(frame)
    try:
        page.value(f"(h => h && h.innerText == '{heading}')(document.querySelector('h1'))")
        return page.value("document.body.innerText")
    finally:
        page.driver.switch_to.default_content()


@pytest.mark.browser
def test_the_front_describes_the_run_and_the_times_of_its_jobs_are_there(page):
    assert "run “ci”" in page.value("document.querySelector('.prose').innerText")
    go_to(page, "Statistics")
    page.value("document.querySelector('#runtimes canvas, #runtimes svg')")
    assert "train_network" in str(page.value("JSON.stringify(runtimes_spec)"))


def test_nobody_and_no_place_is_named(report, finished):
    text = report.read_text()
    assert not [folder for folder in (finished.folder, report.parent) if str(folder) in text]

"""The report: one file, made of the finished run, that a browser shows without asking anybody."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image

from tests.support.browser import Browser, browser
from tests.workflow.conftest import CI

pytestmark = pytest.mark.slow

PAGES = {"Datasheets": "digits_sphere", "Condition numbers": "infinite_ntk"}
PAGES |= {"Best learning rates": "fig3", "Config and versions": "kernel_size: 48"}
SHOWN = "document.querySelector('main > section:not([hidden])')"
IN_FRAMES = "[...document.querySelectorAll('a[href]')].map(link => link.getAttribute('href'))"


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


def go_to(page: Browser, name: str) -> None:
    page.click(f'//nav[@id="contents"]//a[normalize-space()="{name}"]')
    script = "return [...document.querySelectorAll('a[aria-current]')].map(a => a.textContent)"
    page.wait(lambda driver: name in driver.execute_script(script), f"the page {name}")


def in_frame(page: Browser, script: str):
    """Return a value of the page that is shown, as soon as it is there."""
    page.driver.switch_to.frame(page.value(f"{SHOWN}.querySelector('iframe')"))
    try:
        return page.value(script)
    finally:
        page.driver.switch_to.default_content()


@pytest.mark.browser
def test_every_figure_is_shown_as_it_is_with_its_caption(page, finished):
    figures = yaml.safe_load((finished.folder / "notebooks/figures.yaml").read_text())
    for figure in figures:
        caption = (finished.folder / f"notebooks/{figure}.rst").read_text()
        title = re.match(r"\*\*(.+?)\*\*", " ".join(caption.split()))[1]
        link = f"//nav//a[@href='#figures/{figure}']"
        page.click(link)
        place = f"document.getElementById('figures/{figure}')"
        size = f"(i => [i.naturalWidth, i.naturalHeight])({place}.querySelector('img'))"
        with Image.open(finished.folder / f"results/ci/figures/{figure}.png") as image:
            assert tuple(page.value(size)) == image.size
        assert page.value(f"{place}.checkVisibility()")
        text = page.value(f"{place}.querySelector('figcaption').innerText")
        assert text.startswith(title)
        assert len(text) > 0.5 * len(caption)
        assert not [word for word in (":math:", "System Message") if word in text]


@pytest.mark.browser
def test_tables_claims_explorer_config_and_versions_are_pages(page):
    for name, word in PAGES.items():
        go_to(page, name)
        assert word in in_frame(page, "document.body.innerText")
    assert '"torch": "2.13.0' in in_frame(page, "document.body.innerText")
    go_to(page, "Claims")
    assert "Theorem 4.5, Eq. (11)" in in_frame(page, "document.body.innerText")
    go_to(page, "Explorer")
    assert in_frame(page, "document.documentElement.dataset.ready") == "yes"
    assert in_frame(page, "document.querySelectorAll('.chart svg').length") == 7


@pytest.mark.browser
def test_every_link_leads_somewhere_in_the_one_file(page):
    links = page.value("[...document.links].map(link => link.getAttribute('href'))")
    ids = set(page.value("[...document.querySelectorAll('[id]')].map(each => each.id)"))
    assert [link for link in links if link.partition("!")[0].removeprefix("#") not in ids] == []

    page.click("//table[@id='verdicts']//a[@href='#claims!paper=liu2023relu&verdict=holds']")
    count = in_frame(page, "document.querySelector('output').value || null")
    chosen, everything = map(int, re.findall(r"\d+", count))
    assert 0 < chosen < everything

    outside = [link for link in in_frame(page, IN_FRAMES) if not link.startswith("#")]
    assert {link.removesuffix(".png") for link in outside} <= ids
    first = outside[0].removesuffix(".png")
    in_frame(page, f"document.querySelector(`a[href='{outside[0]}']`).click() || true")
    page.wait(lambda driver: driver.current_url.endswith(f"#{first}"), "the figure's address")
    assert page.value(f"document.getElementById('{first}').checkVisibility()")


@pytest.mark.browser
def test_on_a_telephone_the_contents_open_over_the_page_and_close_again(page):
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    is_open = "document.getElementById('contents').checkVisibility()"
    assert page.driver.execute_script(f"return {is_open}") is False
    wide = "document.documentElement.scrollWidth, document.querySelector('main').scrollWidth"
    assert max(page.value(f"[{wide}]")) <= 400
    page.click("//button[@id='menu']")
    go_to(page, "Claims")
    assert page.driver.execute_script(f"return {is_open}") is False
    assert in_frame(page, "document.querySelector('h1').innerText") == "Claims: run ci"


@pytest.mark.browser
def test_the_front_describes_the_run_and_the_times_of_its_jobs_are_there(page):
    assert "run “ci”" in page.value(f"{SHOWN}.innerText")
    go_to(page, "Rules and times")
    assert "train_network" in page.value(f"{SHOWN}.innerText")


def test_nobody_and_no_place_is_named(report, finished):
    text = report.read_text()
    assert not [folder for folder in (finished.folder, report.parent) if str(folder) in text]
    assert not re.search(r">\d [A-Z]", text.partition("</nav>")[0])

"""The report and the pages of the finished run in a real browser: no request, live controls."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from selenium import common, webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.workflow.conftest import CI, CI_FILES, FEW

pytestmark = pytest.mark.slow

CHARTS = "document.querySelectorAll('.chart svg.marks').length"
SPOT = "document.querySelector('#chart-pair svg.marks path[transform]').getAttribute('transform')"
RINGED = "document.querySelectorAll('#chart-depth_kappa path[stroke=\"#E69F00\"]').length"
SHOWN = "[...document.querySelectorAll('.claim:not([hidden])')].map(claim => claim.id).join(' ')"
PROGRAMS = {"chromium": "chromium", "chromium-driver": "chromedriver"}  # Debian's packages
FLAGS = "no-sandbox headless disable-gpu disable-dev-shm-usage no-first-run window-size=1500,950"
FLAGS += " disable-background-networking disable-component-update disable-sync"
LOCAL = ("file:", "data:", "blob:")


class Browser(webdriver.Chrome):
    """Chromium without a window; errors and requests are those since they were last asked for."""

    def open(self, path: Path) -> None:
        self.get(path.resolve().as_uri())

    def click(self, xpath: str) -> None:
        """Click on the one visible thing that fits, as soon as there is one and nothing moves."""

        def clicked(_) -> bool:
            things = [it for it in self.find_elements(By.XPATH, xpath) if it.is_displayed()]
            assert len(things) <= 1, f"{len(things)} things to click: {xpath}"
            # While a menu slides, a click may come where the thing no longer is.
            ready = things and not self.execute_script("return document.getAnimations().length")
            if ready:
                things[0].click()
            return bool(ready)

        self._wait(clicked, xpath)

    def value(self, script: str) -> object:
        """Return the value of an expression as soon as it is true, or fail."""
        return self._wait(lambda _: self.execute_script(f"return {script}"), script)

    def _wait(self, method, missing: str):
        moving = common.ElementClickInterceptedException, common.StaleElementReferenceException
        try:
            return WebDriverWait(self, 10, ignored_exceptions=moving).until(method)
        except common.TimeoutException as error:
            seen = self.execute_script("return document.body.innerText")[:1000]
            raise AssertionError(f"not there: {missing}; the page says: {seen}") from error

    def console_errors(self) -> list[str]:
        log = self.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def remote_requests(self) -> list[str]:
        """Return the addresses that were asked for outside this file."""
        events = [json.loads(it["message"])["message"] for it in self.get_log("performance")]
        sent = ("Network.requestWillBeSent", "Network.webSocketCreated")
        params = [event["params"] for event in events if event["method"] in sent]
        urls = [each.get("request", each).get("url", "") for each in params]
        return [url[:200] for url in urls if not url.startswith(LOCAL)]


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Browser]:
    """A browser with an empty profile, which asks nobody for anything and reports no error.

    Where there is none the test is skipped; with NTK_CHROMIUM=1 it fails.
    """
    missing = [package for package, program in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        refuse = pytest.fail if os.environ.get("NTK_CHROMIUM") == "1" else pytest.skip
        refuse(f"no browser: not installed: {', '.join(missing)} (apt-get install them)")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS.split(), f"user-data-dir={tmp_path}/profile"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # with both paths given selenium looks for nothing and fetches nothing
    with Browser(options=options, service=Service(shutil.which("chromedriver"))) as window:
        window.get("about:blank")
        window.remote_requests()  # those of the page that a new window shows
        yield window
        assert window.console_errors() == []
        assert window.remote_requests() == []


@pytest.fixture
def explorer(finished, window):
    window.open(finished.folder / "results/ci/explorer.html")
    assert window.value("document.documentElement.dataset.ready") == "yes"
    return window


@pytest.fixture
def claims(finished, window):
    window.open(finished.folder / "results/ci/claims.html")
    return window


@pytest.mark.browser
def test_charts_can_be_saved_and_a_slider_moves_its_mark_and_the_numbers_beside_it(explorer):
    assert explorer.value(CHARTS) == 7
    links = "[...document.querySelectorAll('#chart-pair a')].map(link => link.textContent)"
    assert explorer.value(links) == ["Save as SVG", "Save as PNG"]
    link, down = "document.querySelector('#chart-pair a')", "new MouseEvent('mousedown')"
    explorer.execute_script(f"{link}.dispatchEvent({down})")
    explorer.value(f"{link}.href.includes('blob:')")
    assert explorer.value(f"fetch({link}.href).then(it => it.text())").startswith("<svg")
    before = explorer.value(SPOT)
    numbers = explorer.find_element(By.ID, "pair-numbers").text
    slider = ".controls[data-view=theory] [data-key=theta]"
    explorer.find_element(By.CSS_SELECTOR, slider).send_keys(Keys.ARROW_RIGHT * 3)
    explorer.value(f"{SPOT} != '{before}'")
    assert explorer.find_element(By.ID, "pair-numbers").text != numbers


@pytest.mark.browser
def test_kappas_are_those_of_the_table_and_a_claim_marks_its_points(explorer, finished):
    held = json.loads(explorer.value("document.getElementById('content').textContent"))
    shown = pd.DataFrame(held["data"]["depth"])
    table = finished.table("results/ci/tables/conditioning.parquet")
    both = table.merge(shown, on=["kernel", "dataset", "activation", "depth"], how="left")
    assert len(both) == len(table)
    expected, kappa = both["kappa_mean"].astype(float), both["kappa"].astype(float)
    pd.testing.assert_series_equal(kappa, expected, check_names=False, rtol=1e-6)
    assert expected.notna().any()
    sentences = explorer.find_element(By.CSS_SELECTOR, "#depth .findings").text
    assert sentences.count("with ReLU κ ") == sentences.count("with linear ") == 2
    assert "Digits: with ReLU κ falls from " in sentences
    assert explorer.execute_script(f"return {RINGED}") == 0
    keys = {*shown["key"]}
    claim = next(c for c in held["claims"] if keys & {*c["keys"].get("depth", ())})
    name = f"{claim['paper']}.{claim['claim']}"
    explorer.click(f'//div[@id="claims-list"]//button[@title="{name}"]')
    explorer.value(f"{RINGED} > 0")
    assert claim["statement"] in explorer.find_element(By.ID, "claim").text


@pytest.mark.browser
def test_search_and_filter_hide_claims_and_stay_in_the_address(claims, finished):
    table = finished.table("results/ci/tables/claims.parquet")
    claims.find_element(By.NAME, "text").send_keys("RELU depth")
    both = {*claims.value(SHOWN).split()}
    assert {name.partition(".")[0] for name in both} > {"liu2023relu"}
    claims.find_element(By.NAME, "paper").send_keys("liu2023relu")
    found = claims.value(SHOWN)
    assert {*found.split()} == {name for name in both if name.startswith("liu2023relu.")}
    assert claims.value("location.hash") == "#text=RELU+depth&paper=liu2023relu"
    claims.refresh()
    assert claims.value(SHOWN) == found
    claims.click("//button[@name='clear']")
    assert claims.value(f"{SHOWN}.split(' ').length") == len(table)
    places = "[...document.querySelectorAll('.claim:not([hidden]) strong')].map(it => it.innerText)"
    claims.find_element(By.NAME, "text").send_keys("theorem 4")
    assert claims.value(places)[0].startswith("Theorem 4, Eq. (17)")
    assert claims.value(f"{places}.some(place => place.startsWith('Theorem 4.1'))")
    claims.click("//button[@name='clear']")
    claims.click("(//nav//a[contains(., 'misprint')])[1]")
    rows = table.query("kind == 'erratum' and paper == 'liu2023relu' and verdict == 'fails'")
    assert {*claims.value(SHOWN).split()} == {f"liu2023relu.{name}" for name in rows["claim"]}


@pytest.mark.browser
def test_a_linked_claim_opens_though_a_filter_hid_it_and_fits_small_windows(claims, finished):
    table = finished.table("results/ci/tables/claims.parquet")
    misprint = table.query("kind == 'erratum' and paper == 'liu2023relu'")["claim"].iloc[0]
    address = claims.current_url
    for part in ("paper=agarwal2021deep", f"liu2023relu.{misprint}"):
        claims.get(f"{address}#{part}")
    assert claims.value(f"document.getElementById('liu2023relu.{misprint}').open")
    assert claims.value("document.querySelector('[open] math').getBoundingClientRect().height") > 0
    assert claims.value(f"{SHOWN}.split(' ').length") == len(table)
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    claims.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert claims.value("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
    """The report of the finished run, as `make report` makes it, but in another place."""
    make = ["make", "--dry-run", "report", "VERBOSE=1", f"CONFIG={' '.join(CI_FILES)}"]
    planned = subprocess.run(make, cwd=finished.folder, text=True, capture_output=True, check=True)
    commands = planned.stdout.replace("\\\n", "").splitlines()
    run, command = (shlex.split(line)[1:] for line in commands if line.startswith("snakemake"))
    assert run[-3:] == command[-3:] == list(CI)
    place = command.index("results/ci/report.html")
    path = tmp_path_factory.mktemp("report") / "report.html"
    text = finished.run(*command[:place], str(path), *command[place + 1 :])
    assert "Missing metadata" not in text
    return path


def test_every_figure_has_its_caption_and_nobody_and_no_place_is_named(report, finished):
    text = report.read_text(encoding="utf-8")
    for figure in FEW:
        assert f'"results/ci/figures/{figure}.png": {{' in text
        caption = (finished.folder / f"notebooks/{figure}.rst").read_text(encoding="utf-8")
        title = re.match(r"\*\*(.+?)\*\*", " ".join(caption.split()))[1]
        ascii_only = re.match(r"[\w ,]*", title, re.ASCII)[0]  # the rest is escaped, as in JSON
        assert f'"caption": "<p><strong>{ascii_only}' in text
    assert not [word for word in (":math:", "System Message") if word in text]
    assert not [folder for folder in (finished.folder, report.parent) if str(folder) in text]


@pytest.mark.browser
def test_a_browser_shows_findings_first_and_asks_nobody(report, window):
    window.set_window_size(1400, 900)
    window.open(report)
    window.value("document.body.innerText.includes('run “ci”')")
    front = window.value("document.body.innerText")
    assert front.index("Kappa of a ReLU network") < front.index("Main claims")
    assert re.search(r"liu2023relu: \d+ hold", front)
    # the page is centred: the top of a longer one could not be seen
    assert window.value("document.querySelector('.document').getBoundingClientRect().top") >= 0
    for category in ("1 Explorer", "2 Claims", "3 Liu and Hui (2023)", "8 The run"):
        assert category in front
    window.click("//*[text()='3 Liu and Hui (2023)']")
    window.click("//*[contains(text(), 'Figure 2: ')]")

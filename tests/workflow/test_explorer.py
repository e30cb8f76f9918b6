"""The explorer of the finished run in a browser: no request, live controls, the tables' numbers."""

import io
import json

import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.browser import Browser, browser

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CHARTS = "document.querySelectorAll('.chart svg').length"
SPOT = "document.querySelector('#chart-pair svg path[transform]').getAttribute('transform')"
RINGED = "document.querySelectorAll('#chart-depth_kappa path[stroke=\"#E69F00\"]').length"


@pytest.fixture
def explorer(finished, tmp_path):
    with browser(tmp_path / "profile") as found:
        found.open(finished.folder / "results/ci/explorer.html")
        assert found.value("document.documentElement.dataset.ready") == "yes"
        yield found
        assert found.console_errors() == []
        remote, _ = found.remote_requests()
        assert remote == []


def control(explorer: Browser, view: str, key: str):
    places = f".controls[data-view={view}] [data-key={key}]"
    return explorer.driver.find_element(By.CSS_SELECTOR, places)


def test_a_slider_moves_its_mark_and_the_numbers_beside_it(explorer):
    assert explorer.value(CHARTS) == 7
    before = explorer.value(SPOT)
    numbers = explorer.driver.find_element(By.ID, "pair-numbers").text
    control(explorer, "theory", "theta").send_keys(Keys.ARROW_RIGHT * 3)
    explorer.wait(lambda driver: driver.execute_script(f"return {SPOT}") != before, "a moved mark")
    assert explorer.driver.find_element(By.ID, "pair-numbers").text != numbers


def test_kappas_are_those_of_the_table(explorer, finished):
    content = json.loads(explorer.value("document.getElementById('content').textContent"))
    shown = pd.DataFrame(content["data"]["depth"])
    cell = ["kernel", "dataset", "activation", "depth"]
    table = finished.table("results/ci/tables/conditioning.parquet")
    both = table.merge(shown, on=cell, how="left")
    assert len(both) == len(table)
    expected = both["kappa_mean"].astype(float)
    pd.testing.assert_series_equal(
        both["kappa"].astype(float), expected, check_names=False, rtol=1e-6
    )
    assert expected.notna().any()


def test_a_chart_saves_the_rows_that_it_shows(explorer):
    explorer.driver.execute_script(
        "URL.createObjectURL = blob => { window.saved = blob; return '#'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
    )
    saved = {}
    for name in ("depth_kappa", "phase_map"):
        explorer.click(f'//button[@data-csv="{name}"]')
        text = explorer.driver.execute_script("return window.saved.text()")
        saved[name] = pd.read_csv(io.StringIO(text))
    data = json.loads(explorer.value("document.getElementById('content').textContent"))["data"]
    assert len(saved["depth_kappa"]) == len(data["depth"]["kappa"])
    assert set(saved["phase_map"]["source"]) == {"laws", "places"}
    assert saved["phase_map"]["activation"].nunique() == 1
    explorer.click('//button[@data-svg="pair"]')
    assert explorer.driver.execute_script("return window.saved.text()").startswith("<svg")


def test_a_claim_marks_its_points(explorer):
    assert explorer.driver.execute_script(f"return {RINGED}") == 0
    content = json.loads(explorer.value("document.getElementById('content').textContent"))
    keys = set(content["data"]["depth"]["key"])
    claim = next(c for c in content["claims"] if keys & set(c["keys"].get("depth", ())))
    name = f"{claim['paper']}.{claim['claim']}"
    explorer.click(f'//div[@id="claims-list"]//button[.="{name}"]')
    explorer.wait(lambda driver: driver.execute_script(f"return {RINGED}") > 0, "a ringed point")
    assert claim["statement"] in explorer.driver.find_element(By.ID, "claim").text

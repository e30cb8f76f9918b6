"""The pages of the finished run in a browser: no request, live controls, the tables' numbers."""

import json

import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CHARTS = "document.querySelectorAll('.chart svg.marks').length"
SPOT = "document.querySelector('#chart-pair svg.marks path[transform]').getAttribute('transform')"
RINGED = "document.querySelectorAll('#chart-depth_kappa path[stroke=\"#E69F00\"]').length"
SHOWN = "[...document.querySelectorAll('.claim:not([hidden])')].map(claim => claim.id).join(' ')"


@pytest.fixture
def explorer(finished, window):
    window.open(finished.folder / "results/ci/explorer.html")
    assert window.value("document.documentElement.dataset.ready") == "yes"
    return window


@pytest.fixture
def claims(finished, window):
    window.open(finished.folder / "results/ci/claims.html")
    return window


def test_charts_can_be_saved_and_a_slider_moves_its_mark_and_the_numbers_beside_it(explorer):
    assert explorer.value(CHARTS) == 7
    links = "[...document.querySelectorAll('#chart-pair a')].map(link => link.textContent)"
    assert explorer.value(links) == ["Save as SVG", "Save as PNG"]
    down = "new MouseEvent('mousedown')"
    explorer.driver.execute_script(f"document.querySelector('#chart-pair a').dispatchEvent({down})")
    picture = "document.querySelector('#chart-pair a').href"
    explorer.wait(lambda driver: "blob:" in driver.execute_script(f"return {picture}"), "a picture")
    text = explorer.driver.execute_script(f"return fetch({picture}).then(it => it.text())")
    assert text.startswith("<svg")
    before = explorer.value(SPOT)
    numbers = explorer.driver.find_element(By.ID, "pair-numbers").text
    slider = ".controls[data-view=theory] [data-key=theta]"
    explorer.driver.find_element(By.CSS_SELECTOR, slider).send_keys(Keys.ARROW_RIGHT * 3)
    explorer.wait(lambda driver: driver.execute_script(f"return {SPOT}") != before, "a moved mark")
    assert explorer.driver.find_element(By.ID, "pair-numbers").text != numbers


def test_kappas_are_those_of_the_table_and_a_claim_marks_its_points(explorer, finished):
    held = json.loads(explorer.value("document.getElementById('content').textContent"))
    shown = pd.DataFrame(held["data"]["depth"])
    table = finished.table("results/ci/tables/conditioning.parquet")
    both = table.merge(shown, on=["kernel", "dataset", "activation", "depth"], how="left")
    assert len(both) == len(table)
    expected, kappa = both["kappa_mean"].astype(float), both["kappa"].astype(float)
    pd.testing.assert_series_equal(kappa, expected, check_names=False, rtol=1e-6)
    assert expected.notna().any()
    sentences = explorer.driver.find_element(By.CSS_SELECTOR, "#depth .findings").text
    assert sentences.count("with ReLU κ ") == sentences.count("with linear ") == 2
    assert "Digits: with ReLU κ falls from " in sentences
    assert explorer.driver.execute_script(f"return {RINGED}") == 0
    keys = {*shown["key"]}
    claim = next(c for c in held["claims"] if keys & {*c["keys"].get("depth", ())})
    name = f"{claim['paper']}.{claim['claim']}"
    explorer.click(f'//div[@id="claims-list"]//button[@title="{name}"]')
    explorer.wait(lambda driver: driver.execute_script(f"return {RINGED}") > 0, "a ringed point")
    assert claim["statement"] in explorer.driver.find_element(By.ID, "claim").text


def test_search_and_filter_hide_claims_and_stay_in_the_address(claims, finished):
    table = finished.table("results/ci/tables/claims.parquet")
    claims.driver.find_element(By.NAME, "text").send_keys("RELU depth")
    both = {*claims.value(SHOWN).split()}
    assert {name.partition(".")[0] for name in both} > {"liu2023relu"}
    claims.driver.find_element(By.NAME, "paper").send_keys("liu2023relu")
    found = claims.value(SHOWN)
    assert {*found.split()} == {name for name in both if name.startswith("liu2023relu.")}
    assert claims.value("location.hash") == "#text=RELU+depth&paper=liu2023relu"
    claims.driver.refresh()
    assert claims.value(SHOWN) == found
    claims.click("//button[@name='clear']")
    assert claims.value(f"{SHOWN}.split(' ').length") == len(table)
    places = "[...document.querySelectorAll('.claim:not([hidden]) strong')].map(it => it.innerText)"
    claims.driver.find_element(By.NAME, "text").send_keys("theorem 4")
    assert claims.value(places)[0].startswith("Theorem 4, Eq. (17)")
    assert claims.value(f"{places}.some(place => place.startsWith('Theorem 4.1'))")
    claims.click("//button[@name='clear']")
    claims.click("(//nav//a[contains(., 'misprint')])[1]")
    rows = table.query("kind == 'erratum' and paper == 'liu2023relu' and verdict == 'fails'")
    assert {*claims.value(SHOWN).split()} == {f"liu2023relu.{name}" for name in rows["claim"]}


def test_a_linked_claim_opens_though_a_filter_hid_it_and_fits_small_windows(claims, finished):
    table = finished.table("results/ci/tables/claims.parquet")
    misprint = table.query("kind == 'erratum' and paper == 'liu2023relu'")["claim"].iloc[0]
    address = claims.driver.current_url
    for part in ("paper=agarwal2021deep", f"liu2023relu.{misprint}"):
        claims.driver.get(f"{address}#{part}")
    assert claims.value(f"document.getElementById('liu2023relu.{misprint}').open")
    assert claims.value("document.querySelector('[open] math').getBoundingClientRect().height") > 0
    assert claims.value(f"{SHOWN}.split(' ').length") == len(table)
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    claims.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert claims.value("document.documentElement.scrollWidth <= innerWidth")

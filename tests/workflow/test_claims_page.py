"""The page of claims in a browser: search, filter, links, small windows and dark ones."""

from pathlib import Path

import pandas as pd
import pytest
from selenium.webdriver.common.by import By

from ntk_workflow.claims.checking import check
from ntk_workflow.claims.pages import described, page
from ntk_workflow.claims.papers import Claim, Paper
from tests.support.browser import Browser, browser

FORMULA = {"printed": r"\|\nabla f\| = L + 1", "corrected": r"\|\nabla f\|^2 = \frac{L + 1}{1}"}
PROPERTIES = {"kind": "theory", "table": "bounds", "quantity": "kappa", "comparison": "<"}
#: Name, statement, target, and what else differs.
CLAIMS = [
    ("small", "Kappa is small.", "10", {}),
    ("tiny", "Kappa is tiny, says Schur.", "1", {}),
    ("typo", "As printed.", "1", {"kind": "erratum", "formula": FORMULA}),
]
STATEMENTS = {"Theorem 1": None, "Lemma 2": "It is a definition."}
SHOWN = "[...document.querySelectorAll('.claim:not([hidden])')].map(claim => claim.id).join(' ')"


def write(path: Path) -> Path:
    table = pd.DataFrame({"kappa": [3.0, 5.0], "depth": [1, 2]})
    papers = []
    for name in ("first", "second"):
        claims = [
            Claim(
                paper=name,
                name=claim,
                place="Theorem 1",
                statement=words,
                target=target,
                source="word " * 50 + "w" * 300,
                **PROPERTIES | more,
            )
            for claim, words, target, more in CLAIMS
        ]
        checked = [described(claim, check(claim, {"bounds": table})) for claim in claims]
        papers.append((Paper(name, f"The {name} paper", "2020", claims, STATEMENTS), checked))
    path.write_text(page("claims.html.j2", "demo", papers), encoding="utf-8")
    return path


@pytest.fixture
def claims(tmp_path):
    with browser(tmp_path / "profile") as found:
        found.open(write(tmp_path / "claims.html"))
        yield found
        assert found.console_errors() == []
        assert found.remote_requests()[0] == []


def go_to(claims: Browser, part: str) -> None:
    claims.driver.get(f"{claims.driver.current_url.partition('#')[0]}#{part}")


@pytest.mark.browser
def test_search_and_filter_hide_claims_and_stay_in_the_address(claims):
    claims.driver.find_element(By.NAME, "text").send_keys("SCHUR tiny")
    assert claims.value(SHOWN) == "first.tiny second.tiny"
    claims.driver.find_element(By.NAME, "paper").send_keys("second")
    assert claims.value(SHOWN) == "second.tiny"
    assert claims.value("location.hash") == "#text=SCHUR+tiny&paper=second"
    claims.driver.refresh()
    assert claims.value(SHOWN) == "second.tiny"
    claims.click("//button[@name='clear']")
    assert claims.value(f"{SHOWN}.split(' ').length") == 6
    claims.click("(//nav//a[contains(., 'misprint')])[1]")
    assert claims.value(SHOWN) == "first.typo"


@pytest.mark.browser
def test_a_linked_claim_opens_though_a_filter_hid_it_and_fits_small_windows(claims):
    go_to(claims, "paper=first")
    go_to(claims, "second.typo")
    assert claims.value("document.getElementById('second.typo').open")
    assert claims.value("document.querySelector('[open] mfrac').getBoundingClientRect().height") > 0
    assert claims.value(f"{SHOWN}.split(' ').length") == 6
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    claims.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert claims.value("document.documentElement.scrollWidth <= innerWidth")

"""A real browser without a window: Chromium, and what it says in its console and asks for."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common import (
    ElementClickInterceptedException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

PROGRAMS = {"chromium": "chromium", "chromium-driver": "chromedriver"}  # Debian's packages
FLAGS = "no-sandbox headless disable-gpu disable-dev-shm-usage no-first-run window-size=1500,950"
FLAGS += " disable-background-networking disable-component-update disable-sync"
LOCAL = ("file:", "data:", "blob:")


class Browser(webdriver.Chrome):
    """One window; its errors and requests are of all pages since they were last asked for."""

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
        moving = ElementClickInterceptedException, StaleElementReferenceException
        try:
            return WebDriverWait(self, 10, ignored_exceptions=moving).until(method)
        except TimeoutException as error:
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


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Yield a browser with an empty profile, or skip the test; with NTK_CHROMIUM=1 it fails."""
    missing = [package for package, program in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        refuse = pytest.fail if os.environ.get("NTK_CHROMIUM") == "1" else pytest.skip
        refuse(f"no browser: not installed: {', '.join(missing)} (apt-get install them)")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS.split(), f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # with both paths given selenium looks for nothing and fetches nothing
    with Browser(options=options, service=Service(shutil.which("chromedriver"))) as window:
        window.get("about:blank")
        window.remote_requests()  # those of the page that a new window shows
        yield window

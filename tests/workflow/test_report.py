"""The report: Snakemake's own, one file, made of the finished run, with its findings in front."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.workflow.conftest import CI, CI_FILES, FEW

pytestmark = pytest.mark.slow


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
    done = finished.run(*command[:place], str(path), *command[place + 1 :])
    assert "Missing metadata" not in done.stderr
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
    window.driver.set_window_size(1400, 900)
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

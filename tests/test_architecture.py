"""The page on architecture shows the imports as they are."""

from tests import architecture


def test_the_page_is_up_to_date():
    remedy = "run: PYTHONPATH=src python -m tests.architecture"
    assert architecture.page() == architecture.PAGE.read_text(encoding="utf-8"), remedy

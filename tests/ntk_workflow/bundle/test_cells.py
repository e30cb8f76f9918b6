"""Tables have the cells that the recorded config asks for."""

import evaluate_laws
import pytest

from ntk_conditioning import tables
from ntk_workflow.bundle import BundleError
from ntk_workflow.bundle.cells import require_cells
from ntk_workflow.plan import Plan
from tests.plans import plan_of


def test_laws_are_at_all_places(tmp_path, monkeypatch):
    monkeypatch.setattr(Plan, "tables", ["phase_laws"])
    plan = plan_of({"training": None, "phase_study": {"depths": [1], "laws": [3, 4]}})
    path = tmp_path / plan.path("tables/phase_laws.parquet")
    words = [*plan.study_activations("phase_study")(None), *plan.law_grid(None)]
    assert evaluate_laws.main([*words, "--output", str(path)]) == 0
    require_cells(tmp_path, plan)
    tables.write(path, "phase_laws", tables.read(path, "phase_laws")[:-1])
    with pytest.raises(BundleError, match=r"lacks .*, depth 1, n 128, .*, for which"):
        require_cells(tmp_path, plan)

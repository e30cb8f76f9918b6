"""What of a bundle's source is not this checkout's."""

from types import SimpleNamespace

from ntk_workflow.bundle import record


def test_a_file_of_the_project_is_not_excused_as_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "SOURCE", ("papers",))
    for name in ("LICENSE", "mine.py", "papers/liu2023relu.yaml"):
        file = tmp_path / "workflow" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("another\n")
    files = ["mine.py", "papers/liu2023relu.yaml"]
    plan = SimpleNamespace(plugin_files=files, config={"catalogues": []})
    assert record.require_source(tmp_path, plan) == ["papers/liu2023relu.yaml", "LICENSE"]

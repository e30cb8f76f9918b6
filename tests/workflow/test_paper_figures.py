"""The figures of a run for a paper are made on demand, and again when a caption has changed."""

import os
from collections import Counter

from tests.clone import job_counts

TARGET = ("collect_paper_figures", "--configfile", "config/ci.yaml")


def test_paper_figures_are_collected_on_demand(rerun):
    done = rerun.run(*TARGET, "--cores", "1")
    assert job_counts(done.stderr) == Counter({"collect_paper_figures": 1})
    found = {path.name for path in rerun.files("results/ci/paper/*")}
    assert {"liu2023relu_fig2.pdf", "beyond_precision.pdf", "captions.tex"} <= found
    assert len(found) == 20 + 2
    latex = (rerun.folder / "results/ci/paper/captions.tex").read_text()
    assert latex.count("\\caption{") == latex.count("\\label{fig:") == 20

    caption = rerun.folder / "notebooks/liu2023relu/fig4_g.rst"
    os.utime(caption)
    assert rerun.plan(*TARGET) == Counter()
    rerun.edit("notebooks/liu2023relu/fig4_g.rst", "Dashed:", "Dashes:")
    assert rerun.plan(*TARGET) == Counter({"collect_paper_figures": 1})

"""Write what Figure 3 at width 512 came to into docs/why_deeper_trains.md, from resources/fig3.

PYTHONPATH=src:scripts python -m tests.fig3_page
"""

import tempfile
from pathlib import Path

import check_claims
import pandas as pd
import select_learning_rates

from ntk_conditioning import tables
from ntk_conditioning.tables.claims import CLAIMS
from ntk_conditioning.tables.collection import collect
from ntk_conditioning.tables.learning_rates import LEARNING_RATES
from ntk_conditioning.tables.registry import TABLES
from ntk_workflow.claims.checking import NOT_TESTED
from ntk_workflow.pages.rendering import markdown_table, shown
from tests.marked import with_part

ROOT = Path(__file__).parents[1]
CURVES, PAGE = ROOT / "resources/fig3", ROOT / "docs/why_deeper_trains.md"
START = "<!-- figure 3: written by PYTHONPATH=src:scripts python -m tests.fig3_page -->\n"
END = "<!-- end of figure 3 -->\n"
SCALES = {"fig3": "paper's", "fig3_code": "published code's"}


def results() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the best rates of every network, and the claims that are tested on them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in ("training", "training_kernels"):
            rows = collect(sorted(CURVES.glob(f"{table}/**/*.parquet")), TABLES[table])
            tables.write(folder / f"{table}.parquet", TABLES[table], rows)
        rule = ["--criterion", "final_loss", "--loss-level", "0.1"]
        inputs = ["--training", "training", "--kernels", "training_kernels"]
        inputs = [f"{folder}/{word}.parquet" if word[0] != "-" else word for word in inputs]
        rates = str(folder / "learning_rates.parquet")
        assert select_learning_rates.main([*inputs, *rule, "--output", rates]) == 0
        outputs = {"output": "claims.parquet", "markdown": "claims.md", "html": "claims.html"}
        written = [w for key, file in outputs.items() for w in (f"--{key}", str(folder / file))]
        paper = ["--papers", str(ROOT / "papers/liu2023relu.yaml"), "--run", "fig3"]
        compared = ["--tables", str(folder / "training.parquet"), rates]
        assert check_claims.main([*paper, *compared, *written]) == 0
        claims = tables.read(folder / "claims.parquet", CLAIMS).to_pandas()
        return tables.read(rates, LEARNING_RATES).to_pandas(), claims


def in_markdown() -> str:
    """Return both as tables in Markdown."""
    best, claims = results()
    head = ["first layer's scale", "dataset", "depth", "best rate", "final loss, range over seeds"]
    head += ["epochs to a loss of 0.1", "loss at the best common rate", "kappa"]
    rows = []
    for row in best.sort_values(["experiment", "dataset", "depth"]).itertuples():
        spread = f"{row.final_loss_mean:.4f} ({row.final_loss_min:.4f} – {row.final_loss_max:.4f})"
        epochs = None if pd.isna(row.epochs_to_loss) else float(row.epochs_to_loss)
        common = f"{row.common_loss_mean:.4f} ({row.common_rate:g})"
        cells = [SCALES[row.experiment], row.dataset, str(row.depth), f"{row.learning_rate:g}"]
        rows.append([*cells, spread, shown(epochs), common, f"{row.kappa:,.0f}"])
    tested = claims[claims["verdict"] != NOT_TESTED]
    verdicts = []
    for row in tested.itertuples():
        verdict = row.verdict if pd.isna(row.at_this_size) else row.at_this_size
        interval = f"{shown(row.interval_low)} … {shown(row.interval_high)}"
        worst = f"{shown(row.measured)} ({interval}), at {row.worst}"
        cases = f"{row.holding} of {row.cases}"
        verdicts.append([f"`{row.claim}`", verdict, worst, shown(row.expected), cases])
    columns = ["claim", "at this size", "worst case", "target", "cases that hold"]
    return f"{markdown_table(head, rows)}\n\n{markdown_table(columns, verdicts)}\n"


def page() -> str:
    """Return the page with the tables as they are now."""
    return with_part(PAGE, START, END, in_markdown())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

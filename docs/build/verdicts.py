"""Write docs/claims_verdicts.md, the README's table and papers' main claims from a finished demo.

The main claims stand in those pages of papers that have the marks for them.

PYTHONPATH=src:scripts python -m docs.build.verdicts [RUN]

RUN is the folder in which `make demo` has run; else this one. Claims that committed tables of the
papers' sizes decide (resources/) have that verdict beside the demo's.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from docs.build import figure_3, stated
from docs.build.marked import with_part
from ntk_conditioning import tables
from ntk_conditioning.files import write_text
from ntk_workflow.claims.checking import FAILS, HOLDS, NOT_TESTED, check
from ntk_workflow.claims.pages import KINDS, Described, counts, described
from ntk_workflow.claims.papers import Paper, load
from ntk_workflow.config import read_yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/claims_verdicts.md"
HEAD = """# Verdicts

Every claim of the papers, with the number that `make demo` measures and the verdict; [claims.md](claims.md)
says how it is found. The last column is the verdict on committed tables of the paper's samples, width and epochs, with
fewer depths or seeds ([Figure 2](../resources/fig2/README.md), [Figure 3](../resources/fig3/README.md)). `snakemake claims` makes such a page of your own run."""  # noqa: E501

#: The README's table: claim, what it says, what was found, and at which size. Found is what
#: `stated` says of a statement, or a text with the number measured in the demo.
EXPERIMENT, LIMIT = "the demo's", "infinite width"
FRONT = {
    "liu2023relu.section_5_depth": (
        "κ of a ReLU network falls with depth (Figure 2)",
        "κ falls monotonically with depth",
        "the paper's",
    ),
    "liu2023relu.section_5_conditioning": (
        "and is below the linear network's",
        "κ of a ReLU network is smaller than the linear network's, at every depth",
        "the paper's",
    ),
    "liu2023relu.section_5_angle_depth": (
        "Its smallest gradient angle grows with depth",
        "a deeper network has the larger smallest angle",
        "the paper's",
    ),
    "liu2023relu.figure_3_depth_code": (
        "Deeper networks train to a lower loss (Figure 3), scaled as in the code",
        "a deeper ReLU network always converges faster: code",
        "the paper's, fewer depths",
    ),
    "liu2023relu.figure_3_depth": (
        "The same, scaled as in the text",
        "a deeper ReLU network always converges faster: text",
        "one step, one seed",
    ),
    "liu2023relu.section_7_kappa": (
        "κ tends to 1 as the depth grows (Section 7)",
        "it tends to 1 + n/3: {measured:.3g} at n = 10",
        LIMIT,
    ),
    "agarwal2021deep.corollary_6": (
        "κ − 1 of the NTK falls exponentially with depth, activations normalised (Corollary 6)",
        "at most {measured:.0e} of the bound",
        LIMIT,
    ),
    "agarwal2021deep.theorem_16_nothing_learned": (
        "At the depth of Theorem 16 interpolation generalises",
        "risk {measured:.3f} times that of predicting 0",
        LIMIT,
    ),
    "agarwal2021deep.figure_3_speed_batch_norm": (
        "NormReLU trains faster than batch normalisation (Figure 3)",
        "not decided by networks this small",
        EXPERIMENT,
    ),
    "liu2022transition.linearity_rate": (
        "The Hessian's norm falls as 1/√m, m the width",
        "an exponent of {measured:.2f}",
        EXPERIMENT,
    ),
    "liu2022transition.theorem_4_equal_widths": (
        "The bound of Theorem 4 holds at equal widths",
        "exceeded by a factor of {measured:.2f}",
        EXPERIMENT,
    ),
    "liu2022transition.figure_3_right_zero": (
        "|cos θ| in a bottleneck falls towards zero (Figure 3, right)",
        "at {measured:.2g} times the value before training",
        EXPERIMENT,
    ),
}


def front(found: Mapping[str, Described], large: Mapping[str, str]) -> str:
    """Return the README's table of results."""
    rows = ["| paper | claim | ours | size | verdict |", "| --- | --- | --- | --- | --- |"]
    said = [*stated.separation(), *stated.conditioning(), *stated.training()]
    for key, (words, ours, size) in FRONT.items():
        paper, _, name = key.partition(".")
        statement, _, scale = ours.partition(": ")
        parts = [row[2] for row in said if row[1] == statement and scale in row[2].split(":")[0]]
        measured = found[key]["finding"].measured
        parts = [re.sub(r", the .*? scale: the final loss falls", ": falls", p) for p in parts]
        parts = [
            re.sub(r";.*depth 1, (.* against .*) at 10", r": \1 at depth 10", p) for p in parts
        ]
        parts = [re.sub(r"(in|at) (\d+) of \2 ", r"\1 all \2 ", p) for p in parts]
        ours = "; ".join(parts) or ours.format(measured=measured)
        verdict = large.get(name) or found[key]["verdict"]
        link = f"[{verdict}](docs/claims_verdicts.md#{key})"
        cells = [
            f"[{paper}](docs/{paper}.md)",
            words.replace("|", "\\|"),
            escaped(ours),
            size,
            link,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def page(run: Path) -> tuple[str, str, dict[str, str]]:
    """Return the page, with each paper's main claims and all of them folded, `front`, `brief`."""
    papers = [
        load(ROOT / f"papers/{name}.yaml") for name in read_yaml(ROOT / "config.yaml")["papers"]
    ]
    used = {table for paper in papers for table in paper.tables}
    frames = {name: tables.read(run / f"{name}.parquet", name).to_pandas() for name in used}
    parts, all_found, all_large, briefs = [HEAD], {}, {}, {}
    for paper in papers:
        large = at_papers_width(paper)
        found = [described(claim, check(claim, frames)) for claim in paper.claims]
        by_name = {result["claim"].name: result for result in found}
        all_found |= {f"{paper.name}.{name}": result for name, result in by_name.items()}
        all_large |= large
        total = ", ".join(f"{count} {words}" for count, words in counts(found).values())
        parts += [f"## {paper.title}", f"{paper.citation}. {len(found)} claims: {total}."]
        parts.append(table([by_name[main] for main in paper.main], large, anchors=False))
        briefs[paper.name] = brief([by_name[main] for main in paper.main])
        for kind, (heading, words) in KINDS.items():
            if group := [result for result in found if result["claim"].kind == kind]:
                summary = f"<summary>{heading}: {len(group)} claims</summary>"
                rows = table(group, large, anchors=True)
                parts.append(f"<details>\n{summary}\n\n{words}\n\n{rows}\n\n</details>")
    return "\n\n".join(parts) + "\n", front(all_found, all_large), briefs


def brief(results: Sequence[Described]) -> str:
    """Return main claims as rows for the paper's page, with links to all of their numbers."""
    rows = ["| claim | measured | verdict |", "| --- | --- | --- |"]
    for result in results:
        claim = result["claim"]
        verdict = f"[{result['verdict']}](claims_verdicts.md#{claim.paper}.{claim.name})"
        said = f"{escaped(claim.statement)} *{escaped(claim.place)}*"
        cells = [said, escaped(result["measured"].partition(";")[0]), verdict]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def at_papers_width(paper: Paper) -> dict[str, str]:
    """Return the verdicts, with their numbers, of claims that committed tables decide."""
    if paper.name != "liu2023relu":
        return {}
    _, claims, _ = figure_3.results(ROOT / "resources/fig3/published")
    decided = claims[claims["verdict"] != NOT_TESTED]
    verdict = decided["at_this_size"].fillna(decided["verdict"])
    verdicts = dict(zip(decided["claim"], verdict, strict=True))
    kappa = stated.kappas()  # means over seeds
    of_all = {"section_5_depth": [], "section_5_conditioning": []}
    for relu, linear in kappa.values():
        of_all["section_5_depth"] += [*(relu.diff().loc[1:] < 0)]
        of_all["section_5_conditioning"] += [*(relu < linear).loc[1:]]
    verdicts |= {name: HOLDS if all(cases) else FAILS for name, cases in of_all.items()}
    angles = {"angles": pd.read_parquet(ROOT / "resources/fig2/angles.parquet")}
    for claim in paper.claims:
        if claim.tables == ["angles"]:
            finding = check(claim, angles)
            verdicts |= {claim.name: finding.verdict} if finding.cases else {}
    return verdicts


def table(results: Sequence[Described], large: Mapping[str, str], *, anchors: bool) -> str:
    """Return claims as rows; pages link to their anchors."""
    rows = [
        "| claim | verdict (demo) | measured | interval | verdict (paper's size) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for result in results:
        claim = result["claim"]
        anchor = f'<a id="{claim.paper}.{claim.name}"></a>' if anchors else ""
        place = f"{anchor}{escaped(claim.statement)} *{escaped(claim.place)}*, `{claim.name}`"
        verdict = f"{result['mark'][0]} {result['verdict']}"
        texts = [verdict, result["measured"], result["interval"], large.get(claim.name, "")]
        rows.append(f"| {' | '.join([place, *map(escaped, texts)])} |")
    return "\n".join(rows)


def escaped(text: str) -> str:
    """Return a text as a cell of Markdown shows it."""
    return re.sub(r"([|*\\`])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    whole, table_of_results, briefs = page(folder / "results/demo/tables")
    write_text(PAGE, whole)
    readme = ROOT / "README.md"
    write_text(readme, with_part(readme, "results", f"{table_of_results}\n"))
    for name, main_claims in briefs.items():
        paper_page = ROOT / f"docs/{name}.md"
        if "<!-- main claims: " in paper_page.read_text(encoding="utf-8"):
            write_text(paper_page, with_part(paper_page, "main claims", f"{main_claims}\n"))

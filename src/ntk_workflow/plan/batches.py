"""Which cells one job computes: all of a row if that takes minutes, else those of one depth.

Starting a process takes one to two seconds, on a cluster eight to ten with what is around it, and a
cell of small data a fraction of that. So a job computes a row, all depths and seeds of a kernel,
dataset and activation, if that takes minutes: a killed job loses no cell that is done. Where a row
takes longer, every depth has a job of its own, so that they can run side by side.

Pure functions; `common.smk` gives them the run's grids.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ntk_workflow.plan import cells

#: The longest row that is one job, in seconds of one core by the shipped cost model.
LONGEST_ROW = 1800

#: The outputs of a job stand in one command, of which Linux takes 128 KiB.
MOST_CELLS = 500


def is_one_job(seconds: float | None, *, cells: int) -> bool:
    """Return whether a row of so many cells is one job's; ``seconds`` None is not known, and long.

    >>> is_one_job(60.0, cells=25), is_one_job(None, cells=25)
    (True, False)
    """
    return seconds is not None and seconds <= LONGEST_ROW and cells <= MOST_CELLS


@dataclass(frozen=True)
class Batch:
    """The jobs of one rule: one for each of its rows, or for each point of its rows.

    ``rows`` are kernel, dataset, activation and depths of each row; ``depths`` are the rows', or
    the wildcard ``{depth}`` where every depth has a job of its own.
    """

    suffix: str
    rows: tuple[tuple[str, str, str, tuple[int, ...]], ...]
    depths: tuple[int | str, ...]
    seeds: tuple[int | str, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kernel for kernel, *_ in self.rows))

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(dataset for _, dataset, *_ in self.rows))

    @property
    def activations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(activation for _, _, activation, _ in self.rows))

    @property
    def place(self) -> str:
        """Return where in its rule's log folder a job's log is."""
        row = "{dataset}/{activation}"
        return row if self.depths != POINT else f"{row}/depth-{{depth}}"

    def jobs(self) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
        """Yield kernel, dataset, activation and depths of every job."""
        for *row, depths in self.rows:
            for own in [depths] if self.depths != POINT else [(depth,) for depth in depths]:
                yield (*row, own)


POINT = ("{depth}",)

#: Kernel, dataset and activation.
Row = tuple[str, str, str]


def batches(
    grids: Iterable[cells.Grid],
    *,
    kernels: Collection[str],
    seeds: Callable[[str], Sequence[int | str]],
    seconds: Callable[[str, str, Sequence[int], int], float | None],
) -> list[Batch]:
    """Return the jobs that compute the cells of the grids, for some of their kernels.

    All datasets with long rows are one batch, without a suffix. All others are one with the suffix
    ``_rows``, and further ones with a number if their rows have different depths, for Snakemake
    takes no outputs that depend on a wildcard's value. ``seeds`` gives the seeds of a dataset's
    cells; ``seconds`` what a row takes, if that is known, from its dataset, activation, depths and
    number of seeds.
    """
    rows = {row: depths for row, depths in cells.rows(grids).items() if row[0] in kernels}
    # All rows of a dataset or none: the constraints of a rule's wildcards are a product of axes.
    long = {
        dataset
        for (_, dataset, activation), depths in rows.items()
        if not is_one_job(
            seconds(dataset, activation, depths, len(seeds(dataset))),
            cells=len(depths) * len(seeds(dataset)),
        )
    }
    groups: dict[Hashable, list[Row]] = defaultdict(list)
    for row, depths in rows.items():
        _, dataset, _ = row
        groups[POINT if dataset in long else depths, tuple(seeds(dataset))].append(row)
    found, names = [], Counter()
    for (depths, own), group in groups.items():
        name = "" if depths == POINT else "_rows"
        for members in [group] if depths == POINT else products(group):
            names[name] += 1
            suffix = f"{name}_{names[name]}" if names[name] > 1 else name
            found.append(Batch(suffix, tuple((*row, rows[row]) for row in members), depths, own))
    return found


def products(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows in parts that have all combinations of their members' axes, each row once.

    >>> rows = [("ntk", data, name) for data in ("a", "b") for name in ("relu", "erf")]
    >>> products(rows) == [rows]
    True
    >>> products(rows[:3])
    [[('ntk', 'a', 'relu'), ('ntk', 'a', 'erf')], [('ntk', 'b', 'relu')]]
    """
    parts = [list(rows)]
    for axis in (0, 1):  # what all members of two have in common, the third axis has then, too
        parts = [part for whole in parts for part in _alike(whole, axis)]
    return parts


def _alike(rows: Iterable[Row], axis: int) -> list[list[Row]]:
    """Return the rows in parts, so that the members of an axis have the same other axes in each."""
    own: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        own[row[axis]].append(row)
    parts: dict[Hashable, list[Row]] = defaultdict(list)
    for members in own.values():
        parts[frozenset((*row[:axis], *row[axis + 1 :]) for row in members)].extend(members)
    return list(parts.values())


def one_of(names: Iterable[str]) -> str:
    """Return a regular expression that is matched by these names alone.

    >>> one_of(["relu", "a.b"])
    'relu|a\\\\.b'
    """
    return "|".join(map(re.escape, names))

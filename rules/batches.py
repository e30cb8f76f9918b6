"""Which cells one job computes: all depths of a row on small data, else those of one depth.

Starting a process takes one to two seconds, and a cell of small data a fraction of that: there a
job computes a row, all depths and seeds of a kernel, dataset and activation. On large data, where a
cell takes minutes, every depth has a job of its own, so that they can run side by side.

Pure functions; `common.smk` gives them the run's grids.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from ntk_conditioning import cells

#: Multiplications in one layer over all pairs of samples: a third of a second or so on one core.
SMALL_WORK = 5e9

#: The outputs of a job stand in one command, of which Linux takes 128 KiB.
MOST_CELLS = 500


def is_small(samples: int | None, *, width: int, cells: int) -> bool:
    """Return whether a row of so many cells is one job's, for a dataset of so many samples.

    That is if n w (n + w) does not exceed `SMALL_WORK`: with a width of 512 up to 2800 samples. A
    dataset whose samples cannot be counted before its files are read is large.

    >>> is_small(2000, width=512, cells=25), is_small(60000, width=512, cells=25)
    (True, False)
    """
    if samples is None:
        return False
    return samples * width * (samples + width) <= SMALL_WORK and cells <= MOST_CELLS


@dataclass(frozen=True)
class Batch:
    """The jobs of one rule: one for each of its rows, or for each point of its rows.

    ``depths`` are the row's, or the wildcard ``{depth}`` where every depth has a job of its own.
    """

    suffix: str
    kernels: tuple[str, ...]
    datasets: tuple[str, ...]
    activations: tuple[str, ...]
    depths: tuple[int | str, ...]
    seeds: tuple[int | str, ...]

    @property
    def place(self) -> str:
        """Return where in its rule's log folder a job's log is."""
        row = "{dataset}/{activation}"
        return row if self.depths != POINT else f"{row}/depth-{{depth}}"


POINT = ("{depth}",)


def batches(
    grids: Iterable[cells.Grid],
    *,
    kernels: Collection[str],
    seeds: Callable[[str], Sequence[int | str]],
    samples: Callable[[str], int | None],
    width: int,
) -> list[Batch]:
    """Return the jobs that compute the cells of the grids, for some of their kernels.

    All large datasets are one batch, without a suffix. Every small dataset has one that is called
    like it, and further ones with a number if its kernels or activations have different depths, for
    Snakemake takes no outputs that depend on a wildcard's value. ``seeds`` gives the seeds of a
    dataset's cells and ``samples`` their number, if known.
    """
    groups: dict[Hashable, list[tuple[str, str, str]]] = defaultdict(list)
    for row, depths in cells.rows(grids).items():
        kernel, dataset, _ = row
        if kernel not in kernels:
            continue
        own = tuple(seeds(dataset))
        if is_small(samples(dataset), width=width, cells=len(depths) * len(own)):
            groups[kernel, dataset, depths, own].append(row)
        else:
            groups[None, None, POINT, own].append(row)
    found, names = [], Counter()
    for (_, name, depths, own), members in groups.items():
        names[name] += 1
        words = [name, str(names[name]) if names[name] > 1 else None]
        axes = [tuple(dict.fromkeys(axis)) for axis in zip(*members, strict=True)]
        found.append(Batch("".join(f"_{word}" for word in words if word), *axes, depths, own))
    return found


def one_of(names: Iterable[str]) -> str:
    """Return a regular expression that is matched by these names alone.

    >>> one_of(["relu", "a.b"])
    'relu|a\\\\.b'
    """
    return "|".join(map(re.escape, names))

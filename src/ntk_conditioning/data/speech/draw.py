"""The frames of a speech dataset: drawn without replacement, spread over all speakers."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.speech.corpus import Utterance
from ntk_conditioning.errors import UserError


def draw_frames(
    available: Mapping[Utterance, int], n: int, *, generator: np.random.Generator
) -> dict[Utterance, NDArray[np.int64]]:
    """Return ``n`` frame numbers, ascending, by utterance; utterances without any are left out.

    ``available`` says how many frames each utterance has. Every speaker gives as many frames,
    but for a rest that is drawn, and for speakers with fewer frames: these give all, and the
    others more. A speaker's frames are drawn from all of his utterances at once, each frame
    equally likely. The draw depends on the corpus, not on the order in which it was read.

    Raises `UserError` if ``n`` is more than all frames.
    """
    speakers = [list(group) for _, group in groupby(sorted(available), lambda u: u.speaker)]
    ends = [np.cumsum([available[utterance] for utterance in group]) for group in speakers]
    shares = equal_shares([int(end[-1]) for end in ends], n, generator=generator)
    drawn: dict[Utterance, NDArray[np.int64]] = {}
    for group, end, share in zip(speakers, ends, shares, strict=True):
        chosen = np.sort(generator.choice(int(end[-1]), size=share, replace=False))
        owner = np.searchsorted(end, chosen, side="right")
        for k in np.unique(owner):
            drawn[group[k]] = chosen[owner == k] - (end[k] - available[group[k]])
    return drawn


def equal_shares(available: Sequence[int], n: int, *, generator: np.random.Generator) -> list[int]:
    """Return how many of ``n`` each owner gives: equally many, but none more than he has.

    >>> equal_shares([2, 100, 100], 20, generator=np.random.default_rng(0))
    [2, 9, 9]
    """
    have = np.asarray(available, dtype=np.int64)
    if n > have.sum():
        raise UserError(
            f"{n} frames asked for, but the corpus has {have.sum()}; lower speech.frames"
        )
    shares = np.zeros_like(have)
    while (left := n - int(shares.sum())) > 0:
        open_ = np.flatnonzero(shares < have)
        if left < len(open_):
            shares[generator.choice(open_, size=left, replace=False)] += 1
        else:
            shares[open_] += np.minimum(left // len(open_), have[open_] - shares[open_])
    return [int(share) for share in shares]

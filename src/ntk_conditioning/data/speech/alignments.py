"""Phones in time: TextGrids of the Montreal Forced Aligner."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError, reading

_ARPABET = """AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH
UW V W Y Z ZH"""
PHONES: tuple[str, ...] = (*_ARPABET.split(), "SIL", "SPN")
"""The 41 classes: ARPAbet without stress, silence, and spoken noise; a label is a place in it."""

_CLASS = {phone: number for number, phone in enumerate(PHONES)}
_CLASS |= dict.fromkeys(["", "SP", "<EPS>"], _CLASS["SIL"])
_CLASS |= dict.fromkeys(["NSN", "OOV", "UNK", "<UNK>"], _CLASS["SPN"])
# A vowel's stress, and the place of a phone in its word.
_MARKS = re.compile(r"(?<=[A-Z])[0-2]?(_[BIES])?$")
_PHONE_TIER = re.compile(r"(.* - )?phones|phone", re.IGNORECASE)


def phone_class(label: str) -> int | None:
    """Return the class of a phone's label, whatever its stress and place in the word, or None.

    >>> PHONES[phone_class("AH0")], PHONES[phone_class("t_B")], PHONES[phone_class("sp")]
    ('AH', 'T', 'SIL')
    """
    return _CLASS.get(_MARKS.sub("", label.strip().upper()))


def phone_labels(
    path: Path, positions: NDArray[np.int64], *, sample_rate: int, tolerance: int
) -> NDArray[np.int64]:
    """Return the class at each position, counted in samples, by the tier ``phones`` of a TextGrid.

    An interval holds its start but not its end, rounded to the nearest sample. What none holds is
    silence. The last goes on for ``tolerance`` samples, as aligners count in whole frames.

    Raises `FormatError`, or `ContentError` without a tier of phones, or for a later position.
    """
    from praatio import textgrid

    with reading(path, "a TextGrid"):
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
        intervals = [t for t in grid.tiers if isinstance(t, textgrid.IntervalTier) and t.entries]
        tier = next((tier for tier in intervals if _PHONE_TIER.fullmatch(tier.name)), None)
        if tier is None:
            raise ContentError(f"{path} has no tier 'phones' of intervals, only {grid.tierNames}")
    seconds = np.array([interval[:2] for interval in tier.entries])
    classes = [phone_class(label) for _, _, label in tier.entries]
    if None in classes:
        label = tier.entries[classes.index(None)][2]
        raise ContentError(
            f"{path}: {label!r} is no phone of ARPAbet; align with an English ARPAbet model"
        )
    starts, ends = np.rint(seconds * sample_rate).astype(np.int64).T
    late = positions >= ends[-1] + tolerance
    if late.any():
        raise ContentError(
            f"{path}: the phones end at {seconds[-1, 1]:.3f} s, but the utterance has a frame at "
            f"{positions[late][0] / sample_rate:.3f} s; it is of another recording"
        )
    ends[-1] += tolerance
    index = np.searchsorted(starts, positions, side="right") - 1
    inside = (index >= 0) & (positions < ends[index])
    return np.where(inside, np.array(classes)[index], _CLASS["SIL"])


def find_alignments(folder: Path) -> dict[str, Path]:
    """Return the TextGrids in a folder, at any depth, by utterance.

    Raises `ContentError` if there are none, or an utterance has two.
    """
    alignments: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.TextGrid")):
        if path.stem in alignments:
            raise ContentError(f"{path}: {path.stem} has another alignment in {folder}")
        alignments[path.stem] = path
    if not alignments:
        raise ContentError(f"{folder} has no .TextGrid file; make them, or use labels: speaker")
    return alignments

"""Phones in time: TextGrids of the Montreal Forced Aligner, or CTM files of Kaldi."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line

_T = TypeVar("_T")

SILENCE, NOISE = "SIL", "SPN"
_ARPABET = (
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W"
    " Y Z ZH"
)
PHONES: tuple[str, ...] = (*_ARPABET.split(), SILENCE, NOISE)
"""The 41 classes: ARPAbet without stress, silence, and spoken noise; a label is a place in it."""

_CLASS = {phone: number for number, phone in enumerate(PHONES)}
_SILENT = frozenset(("", "SIL", "SP", "<EPS>"))
_NOISY = frozenset(("SPN", "NSN", "OOV", "UNK", "<UNK>"))
_STRESS = re.compile(r"(?<=[A-Z])[0-2]$")
_POSITION = re.compile(r"_[BIES]$")  # Kaldi's place of a phone in its word


class AlignmentError(UserError):
    """An alignment is missing, cannot be read, or does not fit its utterance."""


@dataclass(frozen=True)
class Alignment:
    """The phones of one utterance, in order: classes (k,), and starts and ends (k,) in seconds."""

    source: str
    classes: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]

    def labels(
        self, positions: NDArray[np.int64], *, sample_rate: int, tolerance: int
    ) -> NDArray[np.int64]:
        """Return the class at each position, counted in samples.

        An interval holds its start but not its end, both rounded to the nearest sample. What no
        interval holds is silence. Up to ``tolerance`` samples after the last interval its phone
        goes on, for aligners count in whole frames.

        Raises:
            AlignmentError: if a position is later than that.
        """
        starts = np.rint(self.starts * sample_rate).astype(np.int64)
        ends = np.rint(self.ends * sample_rate).astype(np.int64)
        late = positions >= ends[-1] + tolerance
        if late.any():
            raise AlignmentError(
                f"{self.source}: the phones end at {self.ends[-1]:.3f} s, but the utterance has a "
                f"frame at {positions[late][0] / sample_rate:.3f} s; it is of another recording"
            )
        ends[-1] += tolerance
        index = np.searchsorted(starts, positions, side="right") - 1
        inside = (index >= 0) & (positions < ends[index])
        return np.where(inside, self.classes[index], _CLASS[SILENCE])


def phone_class(label: str) -> int:
    """Return the class of a phone's label, whatever its stress and its place in the word.

    Raises:
        KeyError: if it is no phone of ARPAbet and no name of silence or noise.

    >>> PHONES[phone_class("AH0")], PHONES[phone_class("t_B")], PHONES[phone_class("sp")]
    ('AH', 'T', 'SIL')
    """
    plain = _POSITION.sub("", label.strip().upper())
    if plain in _SILENT:
        return _CLASS[SILENCE]
    if plain in _NOISY:
        return _CLASS[NOISE]
    return _CLASS[_STRESS.sub("", plain)]


def read_textgrid(path: Path) -> Alignment:
    """Return the intervals of a TextGrid's tier ``phones``.

    Raises:
        AlignmentError: if the file cannot be read, has no such tier, or holds another label.
    """
    from praatio import textgrid
    from praatio.utilities import errors

    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
        tier = next((grid.getTier(name) for name in grid.tierNames if _is_phones(name)), None)
    except (errors.PraatioException, OSError, ValueError, LookupError) as error:
        raise AlignmentError(f"{path} cannot be read as a TextGrid: {one_line(error)}") from None
    if tier is None:
        known = ", ".join(map(repr, grid.tierNames)) or "none"
        raise AlignmentError(f"{path} has no tier 'phones'; its tiers: {known}")
    return _alignment(str(path), [(start, end, label) for start, end, label in tier.entries])


def read_ctm(path: Path) -> dict[str, Alignment]:
    """Return the alignments in a CTM file, by utterance.

    A line is ``utterance channel start duration phone``, in seconds, perhaps with a confidence.

    Raises:
        AlignmentError: if a line has another form, or holds another label.
    """
    utterances: dict[str, list[tuple[float, float, str]]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AlignmentError(f"{path} cannot be read as a CTM file: {one_line(error)}") from None
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or line.startswith(";;"):
            continue
        try:
            utterance, _, start, duration, phone, *rest = fields
            if len(rest) > 1:
                raise ValueError
            interval = (float(start), float(start) + float(duration), phone)
        except ValueError:
            raise AlignmentError(
                f"{path}: line {number} is not 'utterance channel start duration phone': {line!r}"
            ) from None
        utterances.setdefault(utterance, []).append(interval)
    return {
        utterance: _alignment(f"{path} ({utterance})", sorted(intervals))
        for utterance, intervals in utterances.items()
    }


class Alignments:
    """The alignments in a folder, by utterance: ``*.TextGrid``, or ``*.ctm``, at any depth.

    TextGrids are found here and read when they are asked for.

    Raises:
        AlignmentError: if there is no such folder, it has neither, or has an utterance twice.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise AlignmentError(
                f"alignments {folder}: no such folder; make it, or use labels: speaker"
            )
        self.folder = folder
        self._textgrids: dict[str, Path] = {}
        self._read: dict[str, Alignment] = {}
        for path in sorted(folder.rglob("*.TextGrid")):
            self._add(self._textgrids, {path.stem: path}, path)
        for path in sorted(folder.rglob("*.ctm")):
            self._add(self._read, read_ctm(path), path)
        if not len(self):
            raise AlignmentError(f"alignments {folder}: it has no .TextGrid and no .ctm file")

    def __contains__(self, utterance: object) -> bool:
        return utterance in self._textgrids or utterance in self._read

    def __len__(self) -> int:
        return len(self._textgrids) + len(self._read)

    def __getitem__(self, utterance: str) -> Alignment:
        if utterance in self._read:
            return self._read[utterance]
        return read_textgrid(self._textgrids[utterance])

    def _add(self, known: dict[str, _T], added: Mapping[str, _T], path: Path) -> None:
        repeated = sorted(name for name in added if name in self)
        if repeated:
            raise AlignmentError(f"{path}: {repeated[0]} has another alignment in {self.folder}")
        known.update(added)


def _is_phones(tier: str) -> bool:
    return tier.lower() in ("phones", "phone") or tier.lower().endswith(" - phones")


def _alignment(source: str, intervals: Sequence[tuple[float, float, str]]) -> Alignment:
    """Return checked intervals, which must be in order and must not overlap."""
    if not intervals:
        raise AlignmentError(f"{source}: no phones")
    starts = np.array([start for start, _, _ in intervals])
    ends = np.array([end for _, end, _ in intervals])
    if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
        raise AlignmentError(f"{source}: a time is not a finite number")
    wrong = (starts < 0) | (ends < starts)
    wrong[1:] |= starts[1:] < ends[:-1] - _ROUNDING
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        raise AlignmentError(
            f"{source}: interval {k} from {starts[k]:g} to {ends[k]:g} s overlaps the one before, "
            "or ends before it starts"
        )
    return Alignment(source, _classes(source, (label for _, _, label in intervals)), starts, ends)


_ROUNDING = 1e-3  # seconds; a CTM's start + duration, each rounded


def _classes(source: str, labels: Iterable[str]) -> NDArray[np.int64]:
    classes = []
    for label in labels:
        try:
            classes.append(phone_class(label))
        except KeyError:
            raise AlignmentError(
                f"{source}: {label!r} is no phone of ARPAbet; align with an English ARPAbet model"
            ) from None
    return np.array(classes, dtype=np.int64)

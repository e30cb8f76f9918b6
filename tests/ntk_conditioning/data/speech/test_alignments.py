"""Every frame gets the phone of its own time, and an alignment that is not sound is named."""

import re
from pathlib import Path

import numpy as np
import pytest
from praatio import textgrid

from ntk_conditioning.data.speech.alignments import (
    PHONES,
    Alignment,
    find_alignments,
    phone_class,
    read_ctm,
    read_textgrid,
)
from ntk_conditioning.data.speech.features import FeatureSettings
from ntk_conditioning.errors import UserError
from tests.ntk_conditioning.data.speech.corpora import damaged

RATE = 16000
INTERVALS = [(0.0, 0.11, ""), (0.11, 0.2225, "HH"), (0.2225, 0.4, "AH0"), (0.4, 0.5, "spn")]


@pytest.fixture
def write_textgrid(tmp_path):
    def write(intervals=INTERVALS, *, name="a", tier="phones", form="long_textgrid") -> Path:
        grid = textgrid.Textgrid()
        grid.addTier(textgrid.IntervalTier("words", [(0, intervals[-1][1], "hu")]))
        grid.addTier(textgrid.IntervalTier(tier, intervals, 0, intervals[-1][1]))
        path = tmp_path / f"{name}.TextGrid"
        path.parent.mkdir(parents=True, exist_ok=True)
        grid.save(str(path), format=form, includeBlankSpaces=True)
        return path

    return write


@pytest.fixture
def write_ctm(tmp_path):
    def write(text: str) -> Path:
        (tmp_path / "all.ctm").write_text(text, errors="surrogateescape")
        return tmp_path / "all.ctm"

    return write


def phones(alignment: Alignment) -> list[str]:
    return [PHONES[label] for label in alignment.classes]


def phones_at(alignment: Alignment, *positions: int) -> list[str]:
    labels = alignment.labels(np.array(positions), sample_rate=RATE, tolerance=400)
    return [PHONES[label] for label in labels]


def test_stress_and_place_do_not_matter_among_39_phones_silence_and_noise():
    assert (*sorted(set(PHONES[:39])), "SIL", "SPN") == PHONES
    names = {"AH": ["AH0", "AH"], "IY": ["iy1"], "ER": ["ER2"], "ZH": ["ZH_E"], "AY": ["AY1_S"]}
    names |= {"SIL": ["", " ", "sil", "SIL", "sp", "<eps>", "SIL_S"]}
    names |= {"SPN": ["spn", "SPN_S", "<unk>"]}
    for phone, labels in names.items():
        assert {PHONES[phone_class(label)] for label in labels} == {phone}
    assert {phone_class(label) for label in ("AX", "AH3", "hello", "T0T", "ɑ")} == {None}


def test_boundaries_belong_to_the_later_phone_and_the_last_goes_on_for_a_frame(write_textgrid):
    alignment = read_textgrid(write_textgrid())
    for start, before, after in ((0.11, "SIL", "HH"), (0.2225, "HH", "AH"), (0.4, "AH", "SPN")):
        assert phones_at(alignment, round(start * RATE) - 1, round(start * RATE)) == [before, after]
    # Frame 21, from 0.21 to 0.235 s, has its middle on the second boundary.
    middles = FeatureSettings().label_positions(np.array([20, 21]))
    assert phones_at(alignment, *middles) == ["HH", "AH"]
    assert phones_at(alignment, 7999, 8000, 8399) == ["SPN"] * 3
    with pytest.raises(UserError, match=r"a\.TextGrid: the phones end at 0\.500 s, .*0\.525"):
        phones_at(alignment, 8400)


def test_a_gap_is_silence(write_ctm):
    path = write_ctm("1-2-3 1 0.10 0.10 AH0\n1-2-3 1 0.30 0.10 T\n")
    labels = phones_at(read_ctm(path)["1-2-3"], 0, 1599, 1600, 3199, 3200, 4799, 4800)
    assert labels == ["SIL", "SIL", "AH", "AH", "SIL", "SIL", "T"]


def test_textgrids_of_both_forms_and_speaker_tiers_are_read(write_textgrid):
    for tier, form in (("phones", "long_textgrid"), ("speaker 1 - phones", "short_textgrid")):
        alignment = read_textgrid(write_textgrid(tier=tier, form=form))
        assert phones(alignment) == ["SIL", "HH", "AH", "SPN"]
    with pytest.raises(UserError, match="no tier 'phones'; its tiers: 'words', 'segments'"):
        read_textgrid(write_textgrid(tier="segments"))
    with pytest.raises(UserError, match=r"a\.TextGrid: 'tʃ' is no phone of ARPAbet"):
        read_textgrid(write_textgrid([(0, 1, "tʃ")]))


def test_damage_to_a_textgrid_is_named_or_harmless(write_textgrid):
    path, refused = write_textgrid(), 0
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        try:
            alignment = read_textgrid(path)
        except UserError as error:
            refused += "a.TextGrid" in str(error) and len(str(error).splitlines()) == 1
        else:  # a digit or a letter of a phone may have changed: still a sound alignment
            assert (alignment.starts <= alignment.ends).all()
            assert len(alignment.classes) == len(alignment.starts) <= len(INTERVALS)
    assert refused > 60


def test_utterances_in_a_ctm_file_are_told_apart_and_sorted(write_ctm):
    lines = ";; a remark\n1-2-3 1 0.5 0.25 AH0_E 0.9\n1-2-4 1 0 1 sil\n\n1-2-3 1 0.0 0.5 T_B\n"
    alignments = read_ctm(write_ctm(lines))
    spoken = {name: phones(alignment) for name, alignment in alignments.items()}
    assert spoken == {"1-2-3": ["T", "AH"], "1-2-4": ["SIL"]}
    assert alignments["1-2-3"].ends.tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1-2-3 1 0.0 AH0", "line 2 is not 'utterance channel start duration phone'"),
        ("1-2-3 1 zero 0.1 AH0", "line 2 is not"),
        ("1-2-3 1 0.0 0.1 AH0 1 2", "line 2 is not"),
        ("1-2-3 1 0.05 0.1 AH0", "interval 1 from 0.05 to 0.15 s overlaps the one before"),
        ("1-2-3 1 0.2 -0.1 AH0", "overlaps the one before, or ends before it starts"),
        ("1-2-3 1 nan 0.1 AH0", "a time is not a finite number"),
        ("1-2-3 1 0.2 0.1 HELLO", "'HELLO' is no phone of ARPAbet"),
        ("\udcff", "cannot be read as a CTM file"),
    ],
)
def test_a_wrong_line_is_named(write_ctm, line, problem):
    with pytest.raises(UserError, match=rf"all\.ctm.*{re.escape(problem)}"):
        read_ctm(write_ctm(f"1-2-3 1 0.0 0.1 T\n{line}\n"))


def test_a_folder_has_textgrids_and_ctm_files_at_any_depth_and_no_utterance_twice(
    tmp_path, write_textgrid, write_ctm
):
    with pytest.raises(UserError, match="absent: no such folder; make it, or use labels"):
        find_alignments(tmp_path / "absent")
    with pytest.raises(UserError, match=r"it has no \.TextGrid and no \.ctm file"):
        find_alignments(tmp_path)
    write_textgrid(name="1/2/1-2-3")
    write_ctm("1-2-4 1 0 1 sil\n")
    alignments = find_alignments(tmp_path)
    assert set(alignments) == {"1-2-3", "1-2-4"}
    assert phones(read_textgrid(alignments["1-2-3"])) == ["SIL", "HH", "AH", "SPN"]
    assert phones(alignments["1-2-4"]) == ["SIL"]
    write_ctm("1-2-3 1 0 1 sil\n")
    with pytest.raises(UserError, match=r"all\.ctm: 1-2-3 has another alignment in"):
        find_alignments(tmp_path)

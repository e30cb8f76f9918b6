"""Every frame gets the phone of its own time, and an alignment that is not sound is named."""

import numpy as np
import pytest

from ntk_conditioning.data.speech.alignments import (
    PHONES,
    Alignment,
    find_alignments,
    phone_class,
    read_textgrid,
)
from ntk_conditioning.data.speech.features import FeatureSettings
from ntk_conditioning.errors import UserError
from tests.ntk_conditioning.data.speech.corpora import textgrid_bytes

RATE = 16000


def write_textgrid(folder, *intervals, name="a", **options):
    path = folder / f"{name}.TextGrid"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(textgrid_bytes(*intervals, **options))
    return path


def phones(alignment: Alignment) -> list[str]:
    return [PHONES[label] for label in alignment.classes]


def phones_at(alignment: Alignment, *positions: int) -> list[str]:
    labels = alignment.labels(np.array(positions), sample_rate=RATE, tolerance=400)
    return [PHONES[label] for label in labels]


def test_stress_and_place_do_not_matter_among_39_phones_silence_and_noise():
    assert (*sorted(set(PHONES[:39])), "SIL", "SPN") == PHONES
    labels = ["AH0", "AH", "iy1", "ZH_E", "AY1_S", "", " ", "sp", "<eps>", "SIL_S", "spn", "<unk>"]
    phones = [PHONES[phone_class(label)] for label in labels]
    assert phones == ["AH", "AH", "IY", "ZH", "AY", *["SIL"] * 5, "SPN", "SPN"]
    assert {phone_class(label) for label in ("AX", "AH3", "hello", "T0T", "ɑ")} == {None}


def test_boundaries_belong_to_the_later_phone_and_the_last_goes_on_for_a_frame(tmp_path):
    alignment = read_textgrid(write_textgrid(tmp_path))
    for start, before, after in ((0.11, "SIL", "HH"), (0.2225, "HH", "AH"), (0.4, "AH", "SPN")):
        assert phones_at(alignment, round(start * RATE) - 1, round(start * RATE)) == [before, after]
    # Frame 21, from 0.21 to 0.235 s, has its middle on the second boundary.
    middles = FeatureSettings().label_positions(np.array([20, 21]))
    assert phones_at(alignment, *middles) == ["HH", "AH"]
    # 1600.64 and 3200.64 are rounded
    two = Alignment("a", np.array([0, 1]), np.array([0.10004, 0.3]), np.array([0.20004, 0.4]))
    assert phones_at(two, 1600, 1601, 3200, 3201) == ["SIL", "AA", "AA", "SIL"]
    assert phones_at(alignment, 7999, 8000, 8399) == ["SPN"] * 3
    with pytest.raises(UserError, match=r"a\.TextGrid: the phones end at 0\.500 s, .*0\.525"):
        phones_at(alignment, 8400)


def test_textgrids_of_both_forms_and_speaker_tiers_are_read(tmp_path):
    for tier, form in (("phones", "long_textgrid"), ("speaker 1 - phones", "short_textgrid")):
        alignment = read_textgrid(write_textgrid(tmp_path, tier=tier, form=form))
        assert phones(alignment) == ["SIL", "HH", "AH", "SPN"]
    with pytest.raises(UserError, match="no tier 'phones'; its tiers: 'words', 'segments'"):
        read_textgrid(write_textgrid(tmp_path, tier="segments"))
    with pytest.raises(UserError, match=r"a\.TextGrid: 'tʃ' is no phone of ARPAbet"):
        read_textgrid(write_textgrid(tmp_path, [(0, 1, "tʃ")]))


def test_a_textgrid_is_whole_and_its_intervals_are_in_order(tmp_path):
    whole, path = textgrid_bytes().decode(), tmp_path / "a.TextGrid"
    for text, fault in (
        (whole[:200], ""),
        (whole.replace("xmin = 0.11 ", "xmin = 0.05 "), "Two intervals in the same tier overlap"),
        (whole.replace("xmax = 0.2225 ", "xmax = 0.1 "), "cannot occur after its end time"),
        (whole.replace("xmin = 0.2225 ", "xmin = nan "), "missing"),
    ):
        path.write_text(text)
        problem = rf"a\.TextGrid cannot be read as a TextGrid: .*{fault}"
        with pytest.raises(UserError, match=problem):
            read_textgrid(path)


def test_a_folder_has_textgrids_at_any_depth_and_no_utterance_twice(tmp_path):
    with pytest.raises(UserError, match="absent: no such folder; make it, or use labels"):
        find_alignments(tmp_path / "absent")
    with pytest.raises(UserError, match=r"it has no \.TextGrid file"):
        find_alignments(tmp_path)
    path = write_textgrid(tmp_path, name="1/2/1-2-3")
    assert find_alignments(tmp_path) == {"1-2-3": path}
    write_textgrid(tmp_path, name="1/3/1-2-3")
    with pytest.raises(UserError, match="1-2-3 has another alignment in"):
        find_alignments(tmp_path)

"""Every frame gets the phone of its own time, and an alignment that is not sound is named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from praatio import textgrid

from ntk_conditioning.data.speech.alignments import (
    PHONES,
    AlignmentError,
    Alignments,
    phone_class,
    read_ctm,
    read_textgrid,
)
from ntk_conditioning.data.speech.features import FeatureSettings

RATE = 16000
INTERVALS = [(0.0, 0.11, ""), (0.11, 0.2225, "HH"), (0.2225, 0.4, "AH0"), (0.4, 0.5, "spn")]


def write_textgrid(path: Path, intervals=INTERVALS, tier: str = "phones") -> Path:
    grid = textgrid.Textgrid()
    words = textgrid.IntervalTier("words", [(0, intervals[-1][1], "hu")])
    grid.addTier(words)
    grid.addTier(textgrid.IntervalTier(tier, intervals, 0, intervals[-1][1]))
    path.parent.mkdir(parents=True, exist_ok=True)
    grid.save(str(path), format="long_textgrid", includeBlankSpaces=True)
    return path


def names(labels: np.ndarray) -> list[str]:
    return [PHONES[label] for label in labels]


def labels_at(alignment, *positions: int, tolerance: int = 400) -> list[str]:
    return names(alignment.labels(np.array(positions), sample_rate=RATE, tolerance=tolerance))


class TestPhones:
    def test_there_are_39_and_silence_and_noise(self):
        assert len(PHONES) == len(set(PHONES)) == 41
        assert PHONES[39:] == ("SIL", "SPN")
        assert list(PHONES[:39]) == sorted(PHONES[:39])

    @pytest.mark.parametrize(
        ("label", "phone"),
        [("AH0", "AH"), ("iy1", "IY"), ("ER2", "ER"), ("T", "T"), ("ZH_E", "ZH"), ("AY1_S", "AY")]
        + [(silent, "SIL") for silent in ("", " ", "sil", "SIL", "sp", "<eps>", "SIL_S")]
        + [(noisy, "SPN") for noisy in ("spn", "SPN_S", "<unk>")],
    )
    def test_stress_and_place_do_not_matter(self, label, phone):
        assert PHONES[phone_class(label)] == phone

    @pytest.mark.parametrize("label", ["AX", "AH3", "hello", "T0T", "ɑ"])
    def test_anything_else_is_no_phone(self, label):
        with pytest.raises(KeyError):
            phone_class(label)


class TestLabels:
    def test_a_boundary_belongs_to_the_later_phone(self, tmp_path):
        alignment = read_textgrid(write_textgrid(tmp_path / "a.TextGrid"))
        edge = round(0.11 * RATE)
        assert labels_at(alignment, 0, edge - 1, edge, edge + 1) == ["SIL", "SIL", "HH", "HH"]
        edge = round(0.2225 * RATE)
        assert labels_at(alignment, edge - 1, edge) == ["HH", "AH"]

    def test_a_frame_has_the_label_of_its_middle(self, tmp_path):
        """Against the intervals, in units of 2.5 ms, of which all times here are multiples."""
        alignment = read_textgrid(write_textgrid(tmp_path / "a.TextGrid"))
        positions = FeatureSettings().label_positions(np.arange(48))
        found = labels_at(alignment, *positions)
        for frame, phone in enumerate(found):
            middle = 4 * frame + 5  # 10 ms a frame, 12.5 ms to its middle
            (expected,) = [
                label
                for start, end, label in INTERVALS
                if round(start * 400) <= middle < round(end * 400)
            ]
            assert phone == PHONES[phone_class(expected)]
        # the middles of frames 21 and 39 are the boundaries at 0.2225 s and, to a frame, 0.4 s
        assert found[20:22] == ["HH", "AH"]
        assert found[38:40] == ["AH", "SPN"]

    def test_the_offset_of_the_label_is_a_setting(self):
        frames = np.array([10, 11])
        assert FeatureSettings().label_positions(frames).tolist() == [1800, 1960]
        kaldi = FeatureSettings(label_offset_ms=5)
        assert kaldi.label_positions(frames).tolist() == [1680, 1840]

    def test_the_last_phone_goes_on_for_a_frame_and_no_longer(self, tmp_path):
        alignment = read_textgrid(write_textgrid(tmp_path / "a.TextGrid"))
        assert labels_at(alignment, 7999, 8000, 8399) == ["SPN"] * 3
        with pytest.raises(
            AlignmentError, match=r"a\.TextGrid: the phones end at 0\.500 s, .*0\.5"
        ):
            labels_at(alignment, 8400)

    def test_a_gap_is_silence(self, tmp_path):
        path = tmp_path / "a.ctm"
        path.write_text("1-2-3 1 0.10 0.10 AH0\n1-2-3 1 0.30 0.10 T\n")
        alignment = read_ctm(path)["1-2-3"]
        found = labels_at(alignment, 0, 1599, 1600, 3199, 3200, 4799, 4800)
        assert found == ["SIL", "SIL", "AH", "AH", "SIL", "SIL", "T"]


class TestTextGrid:
    def test_short_form_and_speaker_tiers_are_read(self, tmp_path):
        path = write_textgrid(tmp_path / "a.TextGrid", tier="speaker 1 - phones")
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True)
        grid.save(str(path), format="short_textgrid", includeBlankSpaces=True)
        assert names(read_textgrid(path).classes) == ["SIL", "HH", "AH", "SPN"]

    def test_no_tier_of_phones(self, tmp_path):
        path = write_textgrid(tmp_path / "a.TextGrid", tier="segments")
        with pytest.raises(AlignmentError, match=r"no tier 'phones'; its tiers: 'words', 'segme"):
            read_textgrid(path)

    def test_another_phone_set(self, tmp_path):
        path = write_textgrid(tmp_path / "a.TextGrid", [(0, 1, "tʃ")])
        with pytest.raises(AlignmentError, match=r"a\.TextGrid: 'tʃ' is no phone of ARPAbet"):
            read_textgrid(path)

    def test_damage_is_named_or_harmless(self, tmp_path):
        whole = write_textgrid(tmp_path / "a.TextGrid").read_bytes()
        good = read_textgrid(tmp_path / "a.TextGrid")
        random = np.random.default_rng(0)
        path = tmp_path / "b.TextGrid"
        refused = 0
        for variant in range(200):
            data = bytearray(whole)
            if variant % 2:
                del data[int(random.integers(len(data))) :]
            else:
                data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
            path.write_bytes(data)
            try:
                found = read_textgrid(path)
            except AlignmentError as error:
                refused += "b.TextGrid" in str(error) and len(str(error).splitlines()) == 1
            else:  # a digit or a letter of a phone may have changed: still a sound alignment
                assert (found.starts <= found.ends).all()
                assert len(found.classes) == len(found.starts) <= len(good.starts)
        assert refused > 60


class TestCtm:
    def test_utterances_are_told_apart_and_sorted(self, tmp_path):
        path = tmp_path / "all.ctm"
        path.write_text(
            ";; a remark\n1-2-3 1 0.5 0.25 AH0_E 0.9\n1-2-4 1 0 1 sil\n\n1-2-3 1 0.0 0.5 T_B\n"
        )
        found = read_ctm(path)
        assert sorted(found) == ["1-2-3", "1-2-4"]
        assert names(found["1-2-3"].classes) == ["T", "AH"]
        assert found["1-2-3"].ends.tolist() == [0.5, 0.75]

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
        ],
    )
    def test_a_wrong_line_is_named(self, tmp_path, line, problem):
        path = tmp_path / "all.ctm"
        path.write_text(f"1-2-3 1 0.0 0.1 T\n{line}\n")
        with pytest.raises(AlignmentError, match=rf"all\.ctm.*{re.escape(problem)}"):
            read_ctm(path)

    def test_bytes_that_are_no_text_are_named(self, tmp_path):
        path = tmp_path / "all.ctm"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(AlignmentError, match=r"all\.ctm cannot be read as a CTM file"):
            read_ctm(path)


class TestFolder:
    def test_textgrids_and_ctm_files_are_found_at_any_depth(self, tmp_path):
        write_textgrid(tmp_path / "1" / "2" / "1-2-3.TextGrid")
        (tmp_path / "rest.ctm").write_text("1-2-4 1 0 1 sil\n")
        found = Alignments(tmp_path)
        assert len(found) == 2
        assert "1-2-3" in found
        assert "1-2-5" not in found
        assert names(found["1-2-3"].classes)[1] == "HH"
        assert names(found["1-2-4"].classes) == ["SIL"]

    def test_two_alignments_of_one_utterance_are_refused(self, tmp_path):
        write_textgrid(tmp_path / "a" / "1-2-3.TextGrid")
        (tmp_path / "rest.ctm").write_text("1-2-3 1 0 1 sil\n")
        with pytest.raises(AlignmentError, match=r"rest\.ctm: 1-2-3 has another alignment in"):
            Alignments(tmp_path)

    def test_no_folder_and_an_empty_one(self, tmp_path):
        with pytest.raises(AlignmentError, match="absent: no such folder; make it, or use labels"):
            Alignments(tmp_path / "absent")
        with pytest.raises(AlignmentError, match=r"it has no \.TextGrid and no \.ctm file"):
            Alignments(tmp_path)

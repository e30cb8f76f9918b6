"""From a corpus to labelled frames: read, drawn, and filtered as Kaldi does it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.preprocessing import StandardScaler

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.speech import alignments, features
from ntk_conditioning.data.speech.alignments import PHONES, phone_labels
from ntk_conditioning.data.speech.corpus import Utterance, count_samples, decode, utterances
from ntk_conditioning.data.speech.extraction import draw_frames
from ntk_conditioning.data.speech.features import FeatureSettings, frame_count
from ntk_conditioning.errors import UserError
from tests.ntk_conditioning.data.speech import corpora
from tests.ntk_conditioning.data.speech.corpora import SUBSET, flac, read_waveform, write_textgrid

RATE, SETTINGS = 16000, FeatureSettings()
NOISE = np.random.default_rng(0).integers(-900, 900, 900).astype(np.int16)


def content(source, subset: str = SUBSET) -> dict[str, bytes]:
    return {utterance.name: flac for utterance, flac in utterances(source, subset)}


def test_archive_and_tree_are_alike_wherever_the_tree_starts(tmp_path):
    tree = corpora.make_tree(tmp_path / "tree")
    expected = {path.stem: path.read_bytes() for path in tree.rglob("*.flac")}
    archive = corpora.make_tar(tree, tmp_path / "small.tar.gz")
    for source in (tree, tree / "LibriSpeech", tree / "LibriSpeech" / SUBSET, archive):
        assert content(source) == expected
        names = [utterance.name for utterance, _ in sorted(utterances(source, SUBSET))]
        assert names == ["19-198-0000", "19-198-0001", "328-129766-0000", "403-126855-0000"]
    with pytest.raises(ContentError, match=r"small\.tar\.gz has no utterance of dev-clean"):
        content(archive, "dev-clean")
    with pytest.raises(ContentError, match="has no folder dev-clean and no LibriSpeech/dev-clean"):
        content(tree, "dev-clean")
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"small\.tar\.gz cannot be read as a tar archive: "):
        content(archive)


@pytest.mark.parametrize("new", ["19/198/19_198_0000", "19/198/18-198-0000", "19/12/19-198-0000"])
def test_a_file_in_the_wrong_place_is_named(tmp_path, new):
    folder = corpora.make_tree(tmp_path) / "LibriSpeech" / SUBSET
    (target := folder / f"{new}.flac").parent.mkdir(exist_ok=True)
    (folder / "19/198/19-198-0000.flac").rename(target)
    with pytest.raises(ContentError, match=f"{new}.flac is not <speaker>/<chapter>/<speaker>-<ch"):
        content(tmp_path)


def test_another_kind_of_file_is_named():
    for data, problem in (
        (b"RIFF" + bytes(60), "cannot be read as FLAC"),
        (flac(NOISE, rate=8000), "8000 Hz, 1 channels, PCM_16; LibriSpeech has FLAC, 16000 Hz"),
        (flac(np.stack([NOISE, NOISE], axis=1)), "16000 Hz, 2 channels"),
        (flac(NOISE / 1000, subtype="PCM_24"), "PCM_24"),
    ):
        for load in (count_samples, decode):
            with pytest.raises(FormatError, match=rf"a\.flac.*{problem}"):
                load(data, source="a.flac", sample_rate=RATE)


NAMES = st.tuples(st.integers(1, 6), st.integers(0, 4))  # speaker and number


@given(st.dictionaries(NAMES, st.integers(1, 30), min_size=1), st.data())
def test_a_draw_has_each_frame_once_and_as_many_of_each_speaker_or_all_of_one(frames, data):
    available = {Utterance(s, 1, number, "", ""): count for (s, number), count in frames.items()}
    n = data.draw(st.integers(1, sum(frames.values())))
    drawn = draw_frames(available, n, generator=np.random.default_rng(0))
    have, shares = np.zeros((2, 7))
    for utterance, count in available.items():
        have[utterance.speaker] += count
    for utterance, chosen in drawn.items():
        assert len(chosen)
        assert (np.diff(chosen) > 0).all()
        assert 0 <= chosen[0] <= chosen[-1] < available[utterance]
        shares[utterance.speaker] += len(chosen)
    assert sum(shares) == n
    assert (max(shares) <= shares[shares < have] + 1).all()


def mel(frequency):
    return 1127 * np.log1p(np.asarray(frequency) / 700)


def plain_energies(waveform: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    """Return the mel energies in double precision, step by step as Kaldi describes them."""
    size, bins = settings.length, settings.num_mel_bins
    frames = sliding_window_view(waveform, size)[:: settings.shift].astype(np.float64)
    frames -= frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    frames -= settings.preemphasis * before
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / (size - 1))) ** 0.85
    padded = 1 << (size - 1).bit_length()
    power = np.abs(np.fft.rfft(frames * povey, padded))[:, :-1] ** 2  # without the Nyquist bin
    centres = mel(np.arange(padded // 2) * settings.sample_rate / padded)
    edges = np.linspace(mel(settings.low_freq), mel(settings.sample_rate / 2), bins + 2)[:, None]
    rising = (centres - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - centres) / (edges[2:] - edges[1:-1])
    energies = power @ np.maximum(np.minimum(rising, falling), 0).T
    return np.maximum(energies, np.finfo(np.float32).eps)


OTHER = FeatureSettings(RATE, 23, frame_length_ms=20, frame_shift_ms=5, low_freq=60, preemphasis=0)


@pytest.mark.parametrize("settings", [SETTINGS, OTHER])
def test_the_filterbank_is_the_plain_one(settings):
    """In single precision filters' weights move an energy by up to 2e-4 of itself, on speech.

    The transform's rounding leaks 1e-9 of a frame's loudest energy into the others.
    """
    for samples in (0, 1, 399, 400, 401, 559, 560, 561, 719, 720):
        energies = features.filterbank(read_waveform()[:samples], settings)
        assert len(energies) == frame_count(samples, settings)
    for path in corpora.UTTERANCES[::6]:
        waveform = read_waveform(path)
        energies = features.filterbank(waveform, settings)
        assert energies.dtype == np.float32
        assert energies.shape == (frame_count(len(waveform), settings), settings.num_mel_bins)
        plain = plain_energies(waveform, settings)
        loudest = plain.max(axis=1, keepdims=True)
        error = np.abs(np.exp(energies.astype(np.float64)) - plain)
        assert (error <= 5e-4 * plain + 1e-8 * loudest).all()


def test_vectors_are_normalised_frames_side_by_side_of_a_band_in_single_precision():
    waveform = read_waveform()
    x = features.vectors(waveform, np.array([0, 5]), SETTINGS)
    assert (x.shape, x.dtype) == ((2, 768), np.float32)
    energies = features.filterbank(waveform, SETTINGS)
    expected = features.normalized(energies)[:12].astype(np.float32)
    np.testing.assert_array_equal(x[1], expected.ravel())
    plain = FeatureSettings(normalization="none", stack_left=0, stack_right=0)
    np.testing.assert_array_equal(features.vectors(waveform, np.array([7]), plain)[0], energies[7])
    energies[:, 5] = np.float32(0.1)  # a constant becomes 0
    expected = StandardScaler().fit_transform(energies.astype(np.float64))
    np.testing.assert_allclose(features.normalized(energies), expected, atol=1e-11)
    with pytest.raises(UserError, match="low_freq 9000 and high_freq 0 span no band below 8000 Hz"):
        FeatureSettings(low_freq=9000)
    with pytest.raises(UserError, match="frame_shift_ms, in ms, have to span a sample"):
        FeatureSettings(frame_shift_ms=0.01)


def phones_at(path, *positions: int) -> list[str]:
    labels = phone_labels(path, np.array(positions), sample_rate=RATE, tolerance=400)
    return [PHONES[label] for label in labels]


def test_stress_and_place_do_not_matter_among_39_phones_silence_and_noise():
    assert (*sorted(set(PHONES[:39])), "SIL", "SPN") == PHONES
    labels = ["AH0", "AH", "iy1", "ZH_E", "AY1_S", "", " ", "sp", "<eps>", "SIL_S", "spn", "<unk>"]
    phones = [PHONES[alignments.phone_class(label)] for label in labels]
    assert phones == ["AH", "AH", "IY", "ZH", "AY", *["SIL"] * 5, "SPN", "SPN"]
    assert {alignments.phone_class(label) for label in ("AX", "AH3", "hello", "T0T", "ɑ")} == {None}


def test_boundaries_belong_to_the_later_phone_and_the_last_goes_on_for_a_frame(tmp_path):
    path = write_textgrid(tmp_path)
    for start, before, after in ((0.11, "SIL", "HH"), (0.2225, "HH", "AH"), (0.4, "AH", "SPN")):
        at = round(start * RATE)
        assert phones_at(path, at - 1, at) == [before, after]
    # Frame 21, from 0.21 to 0.235 s, has its middle on the second boundary.
    middles = SETTINGS.label_positions(np.array([20, 21]))
    assert phones_at(path, *middles) == ["HH", "AH"]
    # 1600.64 and 3200.64 are rounded
    two = write_textgrid(tmp_path, [(0.10004, 0.20004, "AA"), (0.3, 0.4, "AE")], name="two")
    assert phones_at(two, 1600, 1601, 3200, 3201) == ["SIL", "AA", "AA", "SIL"]
    assert phones_at(path, 7999, 8000, 8399) == ["SPN"] * 3
    with pytest.raises(UserError, match=r"a\.TextGrid: the phones end at 0\.500 s, .*0\.525"):
        phones_at(path, 8400)


def test_textgrids_of_both_forms_and_speaker_tiers_are_read_if_whole_and_in_order(tmp_path):
    for tier, form in (("phones", "long_textgrid"), ("speaker 1 - phones", "short_textgrid")):
        path = write_textgrid(tmp_path, tier=tier, form=form)
        assert phones_at(path, 800, 2400, 5000, 7000) == ["SIL", "HH", "AH", "SPN"]
    with pytest.raises(UserError, match=r"no tier 'phones' of intervals, only .* 'segments'"):
        phones_at(write_textgrid(tmp_path, tier="segments"), 0)
    with pytest.raises(UserError, match=r"a\.TextGrid: 'tʃ' is no phone of ARPAbet"):
        phones_at(write_textgrid(tmp_path, [(0, 1, "tʃ")]), 0)
    whole = (path := write_textgrid(tmp_path)).read_text()
    for text in (whole[:200], whole.replace("xmin = 0.11 ", "xmin = 0.05 ")):  # they overlap
        path.write_text(text)
        with pytest.raises(UserError, match=f"{path} cannot be read as a TextGrid: "):
            phones_at(path, 0)


def test_a_folder_has_textgrids_at_any_depth_and_no_utterance_twice(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UserError, match=rf"{folder} has no \.TextGrid file; make them, or use"):
            alignments.find_alignments(folder)
    path = write_textgrid(tmp_path, name="1/2/1-2-3")
    assert alignments.find_alignments(tmp_path) == {"1-2-3": path}
    write_textgrid(tmp_path, name="1/3/1-2-3")
    with pytest.raises(UserError, match="1-2-3 has another alignment in"):
        alignments.find_alignments(tmp_path)

"""The filterbank is Kaldi's, by a plain computation from its description; edges are repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.speech.corpus import decode
from ntk_conditioning.data.speech.features import (
    FeatureSettings,
    SettingsError,
    filterbank,
    frame_count,
    normalized,
    stacked,
    vectors,
)
from tests.unit.speech.real_speech import REAL_UTTERANCES, needs_real_speech

SETTINGS = FeatureSettings()


def mel(frequency):
    return 1127 * np.log1p(np.asarray(frequency) / 700)


def plain_filterbank(waveform: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    """Return the log-mel filterbank in double precision, step by step as Kaldi describes it."""
    size = settings.length
    count = 1 + (len(waveform) - size) // settings.shift
    frames = np.stack(
        [waveform[t * settings.shift : t * settings.shift + size] for t in range(count)]
    ).astype(np.float64)
    frames -= frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    frames -= settings.preemphasis * before
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / (size - 1))) ** 0.85
    padded = 1 << (size - 1).bit_length()
    power = np.abs(np.fft.rfft(frames * povey, padded)) ** 2
    bins = np.arange(padded // 2) * settings.sample_rate / padded  # without the Nyquist bin
    edges = np.linspace(
        mel(settings.low_freq), mel(settings.sample_rate / 2), settings.num_mel_bins + 2
    )
    energies = np.empty((count, settings.num_mel_bins))
    for k, (left, centre, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        weights = np.minimum(
            (mel(bins) - left) / (centre - left), (right - mel(bins)) / (right - centre)
        )
        energies[:, k] = power[:, : padded // 2] @ np.maximum(weights, 0)
    return np.log(np.maximum(energies, np.finfo(np.float32).eps))


def chirp(seconds: float = 1.3) -> np.ndarray:
    """Return a sweep from 100 Hz upwards with some noise, in 16 bits."""
    t = np.arange(int(seconds * 16000)) / 16000
    noise = np.random.default_rng(0).standard_normal(len(t))
    return (6000 * np.sin(2 * np.pi * (100 * t + 2000 * t * t)) + 40 * noise).astype(np.int16)


def assert_same_energies(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare log energies as Kaldi's single precision allows.

    The filters' weights are differences of mel frequencies in single precision, which moves an
    energy by up to 2e-4 of itself (seen on speech and on sweeps), and the transform's rounding
    leaks 1e-9 of a frame's loudest energy into the others.
    """
    energies, plain = np.exp(found.astype(np.float64)), np.exp(expected)
    loudest = plain.max(axis=1, keepdims=True)
    assert (np.abs(energies - plain) <= 5e-4 * plain + 1e-8 * loudest).all()


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        FeatureSettings(num_mel_bins=23, frame_length_ms=20, frame_shift_ms=5),
        FeatureSettings(preemphasis=0, low_freq=60),
    ],
)
def test_the_filterbank_is_the_plain_one(settings):
    waveform = chirp()
    found = filterbank(waveform, settings)
    assert found.dtype == np.float32
    assert_same_energies(found, plain_filterbank(waveform, settings))


@needs_real_speech
@pytest.mark.parametrize("path", REAL_UTTERANCES, ids=lambda path: path.stem)
def test_the_filterbank_is_the_plain_one_on_real_speech(path):
    waveform = decode(path.read_bytes(), source=str(path), sample_rate=16000)
    found = filterbank(waveform, SETTINGS)
    expected = plain_filterbank(waveform, SETTINGS)
    assert found.shape == (frame_count(len(waveform), SETTINGS), 64)
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=0)  # seen: 1.9e-4
    assert_same_energies(found, expected)


@given(st.integers(0, 3000), st.integers(2, 40), st.integers(1, 30))
def test_frames_are_counted_as_they_come(samples, length_ms, shift_ms):
    settings = FeatureSettings(frame_length_ms=length_ms, frame_shift_ms=shift_ms)
    starts = [s for s in range(0, samples, settings.shift) if s + settings.length <= samples]
    assert frame_count(samples, settings) == len(starts)


@pytest.mark.parametrize("samples", [0, 1, 399, 400, 401, 559, 560, 561, 719, 720])
def test_the_library_counts_frames_alike(samples):
    waveform = chirp()[:samples]
    assert len(filterbank(waveform, SETTINGS)) == frame_count(samples, SETTINGS)


def test_normalised_features_have_mean_0_and_variance_1_and_constants_become_0():
    features = filterbank(chirp(), SETTINGS)
    features[:, 5] = np.float32(0.1)  # whose mean over many frames is not exactly 0.1
    x = normalized(features)
    assert x.dtype == np.float64
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(np.delete(x.var(axis=0), 5), 1, rtol=1e-12)
    assert not x[:, 5].any()


def test_stacking_repeats_the_frames_at_the_edges():
    features = np.arange(4.0)[:, None] * [1, 10]  # frame t is (t, 10 t)
    found = stacked(features, np.array([0, 1, 3]), left=2, right=1)
    first = [0, 0, 0, 0, 0, 0, 1, 10]
    middle = [0, 0, 0, 0, 1, 10, 2, 20]
    last = [1, 10, 2, 20, 3, 30, 3, 30]
    assert found.tolist() == [first, middle, last]


def test_an_utterance_shorter_than_its_neighbourhood_can_be_stacked():
    assert stacked(np.ones((1, 3)), np.array([0]), left=5, right=6).tolist() == [[1.0] * 36]


def test_vectors_are_768_numbers_in_single_precision_and_repeat():
    waveform = chirp()
    frames = np.array([0, 5, frame_count(len(waveform), SETTINGS) - 1])
    found = vectors(waveform, frames, SETTINGS)
    assert found.shape == (3, 768)
    assert found.dtype == np.float32
    assert found.tobytes() == vectors(waveform, frames, SETTINGS).tobytes()
    # the middle of a vector is the frame itself
    features = normalized(filterbank(waveform, SETTINGS))
    np.testing.assert_array_equal(found[1][5 * 64 : 6 * 64], features[5].astype(np.float32))
    np.testing.assert_array_equal(found[1][:64], features[0].astype(np.float32))
    np.testing.assert_array_equal(found[1][-64:], features[11].astype(np.float32))


def test_without_normalisation_the_energies_are_kept():
    settings = FeatureSettings(normalization="none", stack_left=0, stack_right=0)
    waveform = chirp()
    found = vectors(waveform, np.array([7]), settings)
    np.testing.assert_array_equal(found[0], filterbank(waveform, settings)[7])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"low_freq": 9000}, "low_freq 9000 and high_freq 0 span no band below 8000 Hz"),
        ({"high_freq": -7990}, "span no band"),
        ({"frame_shift_ms": 0.01}, "less than a sample at 16000 Hz"),
        ({"dither": 1.0}, "dither adds noise that no seed repeats; it must be 0"),
        ({"window": "kaiser"}, "window kaiser is not one of povey"),
        ({"bins": 64}, "no setting is called bins; they are sample_rate, num_mel_bins"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, problem):
    with pytest.raises(SettingsError, match=problem):
        FeatureSettings.from_mapping(settings)

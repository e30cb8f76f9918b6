"""The filterbank is Kaldi's, by a plain computation from its description; edges are repeated."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from ntk_conditioning.data.speech.features import (
    FeatureSettings,
    filterbank,
    frame_count,
    normalized,
    vectors,
)
from ntk_conditioning.errors import UserError
from tests.ntk_conditioning.data.speech.corpora import UTTERANCES, read_waveform

SETTINGS = FeatureSettings()


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


OTHERS = [FeatureSettings(num_mel_bins=23, frame_length_ms=20, frame_shift_ms=5)]
OTHERS += [FeatureSettings(preemphasis=0, low_freq=60)]


@pytest.mark.parametrize("settings", [SETTINGS, *OTHERS])
def test_the_filterbank_is_the_plain_one(settings):
    """As Kaldi's single precision allows.

    The filters' weights are differences of mel frequencies in single precision, which moves an
    energy by up to 2e-4 of itself (seen on speech), and the transform's rounding leaks 1e-9 of a
    frame's loudest energy into the others.
    """
    for samples in (0, 1, 399, 400, 401, 559, 560, 561, 719, 720):
        features = filterbank(read_waveform()[:samples], settings)
        assert len(features) == frame_count(samples, settings)
    for path in UTTERANCES[::6]:
        waveform = read_waveform(path)
        features = filterbank(waveform, settings)
        assert features.dtype == np.float32
        assert features.shape == (frame_count(len(waveform), settings), settings.num_mel_bins)
        plain = plain_energies(waveform, settings)
        loudest = plain.max(axis=1, keepdims=True)
        error = np.abs(np.exp(features.astype(np.float64)) - plain)
        assert (error <= 5e-4 * plain + 1e-8 * loudest).all()


def test_vectors_are_normalised_frames_side_by_side_in_single_precision():
    waveform = read_waveform()
    x = vectors(waveform, np.array([0, 5]), SETTINGS)
    assert (x.shape, x.dtype) == ((2, 768), np.float32)
    features = filterbank(waveform, SETTINGS)
    np.testing.assert_array_equal(x[1], normalized(features)[:12].astype(np.float32).ravel())
    plain = FeatureSettings(normalization="none", stack_left=0, stack_right=0)
    np.testing.assert_array_equal(vectors(waveform, np.array([7]), plain)[0], features[7])
    features[:, 5] = np.float32(0.1)  # a constant becomes 0
    x = normalized(features)
    assert x.dtype == np.float64
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(np.delete(x.var(axis=0), 5), 1, rtol=1e-12)
    assert not x[:, 5].any()


def test_frequencies_that_span_no_band_are_named():
    with pytest.raises(UserError, match="low_freq 9000 and high_freq 0 span no band below 8000 Hz"):
        FeatureSettings(low_freq=9000)

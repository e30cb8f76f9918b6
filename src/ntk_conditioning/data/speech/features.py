"""Kaldi's log-mel filterbank, normalised by utterance, with neighbouring frames stacked.

liu2023relu says only "768-dimensional vector"; 64 bins times 12 frames is our reading of it.
"""

from dataclasses import dataclass

import kaldi_native_fbank
import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError


@dataclass(frozen=True)
class FeatureSettings:
    """How a waveform becomes vectors; the names and defaults are Kaldi's where it has them.

    Times are in milliseconds, frequencies in hertz; a ``high_freq`` that is not positive counts
    down from half the sample rate. A vector holds the frames from ``stack_left`` before to
    ``stack_right`` after a frame, whose label is that of ``label_offset_ms`` after its start.
    ``dither`` other than 0 adds noise that no seed repeats. Raises `UserError` if the frequencies
    span no band, or a frame or shift no sample.
    """

    sample_rate: int = 16000
    num_mel_bins: int = 64
    frame_length_ms: float = 25.0
    frame_shift_ms: float = 10.0
    low_freq: float = 20.0
    high_freq: float = 0.0
    preemphasis: float = 0.97
    window: str = "povey"
    dither: float = 0.0
    normalization: str = "utterance"
    stack_left: int = 5
    stack_right: int = 6
    label_offset_ms: float = 12.5

    def __post_init__(self) -> None:
        nyquist = self.sample_rate / 2
        high = self.high_freq if self.high_freq > 0 else nyquist + self.high_freq
        if not 0 <= self.low_freq < high <= nyquist:
            raise UserError(
                f"low_freq {self.low_freq:g} and high_freq {self.high_freq:g} span no band below "
                f"{nyquist:g} Hz; high_freq counts down from there when it is not positive"
            )
        if min(self.length, self.shift) < 1:
            raise UserError("frame_length_ms and frame_shift_ms, in ms, have to span a sample")

    @property
    def length(self) -> int:
        """Samples in a frame."""
        return int(self.sample_rate * self.frame_length_ms / 1000)

    @property
    def shift(self) -> int:
        """Samples from a frame's start to the next one's."""
        return int(self.sample_rate * self.frame_shift_ms / 1000)

    @property
    def dimension(self) -> int:
        """Numbers in a stacked vector."""
        return self.num_mel_bins * (self.stack_left + 1 + self.stack_right)

    def label_positions(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the samples whose label is the label of each frame."""
        offset = round(self.sample_rate * self.label_offset_ms / 1000)
        return frames * self.shift + offset


def frame_count(samples: int, settings: FeatureSettings) -> int:
    """Return how many whole frames a waveform has (Kaldi's ``snip_edges``)."""
    return max(0, 1 + (samples - settings.length) // settings.shift)


def filterbank(waveform: NDArray[np.int16], settings: FeatureSettings) -> NDArray[np.float32]:
    """Return the log energies (T, bins) of a 16-bit waveform (n,), T by `frame_count`.

    As Kaldi's ``compute-fbank-feats``: per frame the mean is removed, then pre-emphasis, window,
    power spectrum padded to a power of two, mel filters, and the logarithm, floored at eps32.
    """
    options = kaldi_native_fbank.FbankOptions()
    frame, mel = options.frame_opts, options.mel_opts
    frame.samp_freq, frame.dither = settings.sample_rate, settings.dither
    frame.frame_length_ms = settings.frame_length_ms
    frame.frame_shift_ms = settings.frame_shift_ms
    frame.preemph_coeff, frame.window_type = settings.preemphasis, settings.window
    frame.snip_edges = True
    mel.num_bins = settings.num_mel_bins
    mel.low_freq, mel.high_freq = settings.low_freq, settings.high_freq
    computer = kaldi_native_fbank.OnlineFbank(options)
    computer.accept_waveform(settings.sample_rate, waveform.astype(np.float32))
    computer.input_finished()
    frames = [computer.get_frame(t) for t in range(computer.num_frames_ready)]
    return np.array(frames, dtype=np.float32).reshape(-1, settings.num_mel_bins)


def normalized(features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return features (T, bins) with mean 0 and variance 1 in each bin; a constant bin is 0."""
    x = features.astype(np.float64)
    x -= x.mean(axis=0)  # exact where a bin is constant, as sums of single precision are
    deviation = np.sqrt(np.mean(x * x, axis=0))
    return np.asarray(x / np.where(deviation > 0, deviation, 1))


def stacked(
    features: NDArray[np.floating], frames: NDArray[np.int64], *, left: int, right: int
) -> NDArray[np.floating]:
    """Return for each of ``frames`` its neighbours side by side, (len(frames), neighbours · bins).

    The order is from ``left`` frames before to ``right`` frames after; beyond the utterance's ends
    its first or last frame is repeated, as Kaldi's ``splice-feats`` does.

    >>> stacked(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2]), left=1, right=1).tolist()
    [[1.0, 1.0, 2.0], [2.0, 3.0, 3.0]]
    """
    neighbours = frames[:, None] + np.arange(-left, right + 1)
    inside: NDArray[np.floating] = features[np.clip(neighbours, 0, len(features) - 1)]
    return inside.reshape(len(frames), -1)


def vectors(
    waveform: NDArray[np.int16], frames: NDArray[np.int64], settings: FeatureSettings
) -> NDArray[np.float32]:
    """Return the vectors (len(frames), dimension) of some frames of one utterance."""
    energies = filterbank(waveform, settings)
    x = normalized(energies) if settings.normalization == "utterance" else energies
    x = stacked(x, frames, left=settings.stack_left, right=settings.stack_right)
    return x.astype(np.float32)

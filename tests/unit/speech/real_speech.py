"""Where real LibriSpeech utterances are, for tests that use them if they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL = Path(__file__).parents[4] / "shared" / "data" / "librispeech"
REAL_UTTERANCES = [
    REAL / "LibriSpeech" / name
    for name in (
        "train-clean-100/19/198/19-198-0000.flac",
        "dev-clean/2412/153948/2412-153948-0000.flac",
        "test-other/3005/163389/3005-163389-0001.flac",
    )
]
needs_real_speech = pytest.mark.skipif(
    not all(path.exists() for path in REAL_UTTERANCES),
    reason="real LibriSpeech utterances are not beside the repository",
)

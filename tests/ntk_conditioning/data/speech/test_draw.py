"""Frames are drawn without replacement and spread over speakers and utterances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.speech.corpus import Utterance
from ntk_conditioning.data.speech.extraction import draw_frames, equal_shares
from ntk_conditioning.errors import UserError


def corpus(frames: dict[tuple[int, int], int]) -> dict[Utterance, int]:
    """Return utterances (speaker, number) with that many frames."""
    return {
        Utterance(speaker, 1, number, f"{speaker}-1-{number}", "", bytes): count
        for (speaker, number), count in frames.items()
    }


def draw(available: dict[Utterance, int], n: int, seed: int = 0) -> dict[Utterance, np.ndarray]:
    return draw_frames(available, n, generator=np.random.default_rng(seed))


NAMES = st.tuples(st.integers(1, 6), st.integers(0, 4))


@given(st.dictionaries(NAMES, st.integers(1, 30), min_size=1), st.data())
def test_a_draw_has_as_many_frames_as_asked_each_once_and_each_there(frames, data):
    available = corpus(frames)
    n = data.draw(st.integers(1, sum(frames.values())))
    drawn = draw(available, n)
    assert sum(map(len, drawn.values())) == n
    for utterance, chosen in drawn.items():
        assert len(chosen)
        assert (np.diff(chosen) > 0).all()
        assert 0 <= chosen[0] <= chosen[-1] < available[utterance]
    total = sum(frames.values())
    problem = f"{total + 1} frames asked for, but the corpus has {total}; lower speech.frames"
    with pytest.raises(UserError, match=problem):
        draw(available, total + 1)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.data())
def test_shares_are_equal_but_for_one_and_for_those_who_have_less(have, data):
    n = data.draw(st.integers(0, sum(have)))
    shares = equal_shares(have, n, generator=np.random.default_rng(0))
    assert sum(shares) == n
    assert all(share <= owned for share, owned in zip(shares, have, strict=True))
    free = [share for share, owned in zip(shares, have, strict=True) if share < owned]
    assert not free or max(shares) <= min(free) + 1


def test_the_draw_is_uniform_within_a_speaker():
    available = corpus({(1, 0): 30, (1, 1): 10})
    counts = np.zeros(40)
    for seed in range(1000):
        for utterance, chosen in draw(available, 10, seed).items():
            counts[chosen + 30 * utterance.utterance] += 1
    # binomial(1000, 1/4): mean 250, deviation 13.7
    assert abs(counts - 250).max() < 5 * 13.7

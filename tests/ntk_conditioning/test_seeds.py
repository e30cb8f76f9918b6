"""No two uses of a seed share a stream."""

from itertools import product
from typing import get_args

import numpy as np
import pytest

from ntk_conditioning.seeds import Role, generator


def test_every_seed_role_and_number_from_one_has_a_stream_that_stays_what_it_was():
    cases = list(product((1, 2), get_args(Role), (None, 1, 2, 1000)))
    assert len({generator(*case).random() for case in cases}) == len(cases)
    for entropy, case in (([4, 2], (4, "init")), ([4, 2, 7], (4, "init", 7))):
        expected = np.random.default_rng(np.random.SeedSequence(entropy)).random()
        assert generator(*case).random() == expected
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"number {number} is below 1"):
            generator(1, "batch", number)

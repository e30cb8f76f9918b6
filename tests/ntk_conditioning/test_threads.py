"""Pieces of work in threads: all are done, and an error is raised."""

import pytest
import torch

from ntk_conditioning import threads


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("at_once", [1, 3])
def test_an_error_is_raised_and_torch_has_as_many_threads_as_before(at_once):
    torch.set_num_threads(2)
    done: list[tuple[int, bool]] = []
    threads.each(lambda piece: done.append((piece, torch.is_grad_enabled())), range(100), at_once)
    assert sorted(done) == [(piece, False) for piece in range(100)]

    def work(piece: int) -> None:
        if piece == 3:
            raise MemoryError("piece 3")

    with pytest.raises(MemoryError, match="piece 3"):
        threads.each(work, range(100), at_once)
    assert torch.get_num_threads() == 2

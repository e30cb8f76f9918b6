"""Pieces of work in threads: all are done, and an error is told."""

from threading import Barrier

import pytest
import torch

from ntk_conditioning import threads


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("at_once", [1, 3])
def test_an_error_is_told_and_torch_has_as_many_threads_as_before(at_once):
    torch.set_num_threads(2)
    done: list[int] = []
    threads.each(done.append, range(100), at_once)
    assert sorted(done) == [*range(100)]

    def work(piece: int) -> None:
        if piece == 3:
            raise MemoryError("piece 3")

    with pytest.raises(MemoryError, match="piece 3"):
        threads.each(work, range(100), at_once)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("number", [1, 2, 5])
def test_pieces_share_out_pieces_of_their_own_though_all_threads_are_busy(number):
    with threads.Team(number) as team:
        table = team.map(lambda k: team.map(lambda m: 10 * k + m, range(7)), range(9))
        assert table == [[10 * k + m for m in range(7)] for k in range(9)]
        assert team.spare == number - 1


def test_a_team_works_at_once_and_an_error_comes_when_the_others_rest():
    meeting, done = Barrier(3, timeout=60), []

    def work(piece: int) -> None:
        meeting.wait()
        if piece == 1:
            raise MemoryError("piece 1")
        done.append(piece)

    with threads.Team(3) as team:
        with pytest.raises(MemoryError, match="piece 1"):
            team.map(work, range(3))
        assert sorted(done) == [0, 2]
        assert team.spare == 2

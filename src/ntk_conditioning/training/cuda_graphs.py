"""Steps on a GPU that are recorded once, as a CUDA graph, and then replayed.

A step is dozens of small operations; a replay starts all at once, in less time than they take.
"""

import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def waits(function: Callable[[], None]) -> bool:
    """Call a function; return whether it waited for the GPU, so that it cannot be recorded."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return any("called a synchronizing" in str(warning.message) for warning in caught)


class Recorded:
    """A function of some rows' numbers, by seed, that changes tensors in place.

    It must not wait for the GPU (`waits`), and all that it reads and changes must stay in place.
    """

    def __init__(
        self, function: Callable[[Mapping[int, Tensor]], None], rows: Mapping[int, Tensor]
    ) -> None:
        self._rows = {seed: chosen.clone() for seed, chosen in rows.items()}
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            function(self._rows)

    def __call__(self, rows: Mapping[int, Tensor]) -> None:
        """Do for these rows, as many as before, what was recorded."""
        for seed, chosen in rows.items():
            self._rows[seed].copy_(chosen)
        self._graph.replay()

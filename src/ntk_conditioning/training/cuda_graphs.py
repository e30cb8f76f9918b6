"""Steps on a GPU that are recorded once, as a CUDA graph, and then replayed.

A step is dozens of small operations, and to start them takes longer than shallow networks need for
them. A replay starts all at once.
"""

import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

_WAITED = "called a synchronizing CUDA operation"


def waits(function: Callable[[], None]) -> bool:
    """Call a function; return whether it waited for the GPU, so that it cannot be recorded.

    What looks at a value does, and what copies one to the GPU.
    """
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return any(_WAITED in str(warning.message) for warning in caught)


class Recorded:
    """A function of some rows' numbers, by seed, that changes tensors in place.

    It must not wait for the GPU (`waits`). It is recorded with the memory that it has then: all
    that it reads and changes must stay where it is.
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

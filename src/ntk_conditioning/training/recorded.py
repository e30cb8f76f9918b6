"""Steps on a GPU that are recorded once, as a CUDA graph, and then replayed.

A step is dozens of small operations, and to start them takes longer than shallow networks need for
them. A replay starts all at once.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class Recorded:
    """A function of some rows' numbers, by seed, that changes tensors in place.

    It is recorded with the memory that it has then: all that it reads and changes must stay where
    it is. A function that needs a value from the GPU on the way is not recorded, but called.
    """

    def __init__(
        self, function: Callable[[Mapping[int, Tensor]], None], rows: Mapping[int, Tensor]
    ) -> None:
        self._function = function
        self._rows = {seed: chosen.clone() for seed, chosen in rows.items()}
        self._graph: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self._graph):
                function(self._rows)
        except RuntimeError:  # such as an activation that looks at its values
            self._graph = None
            torch.cuda.synchronize()

    def __call__(self, rows: Mapping[int, Tensor]) -> None:
        """Do for these rows, as many as before, what was recorded."""
        if self._graph is None:
            self._function(rows)
            return
        for seed, chosen in rows.items():
            self._rows[seed].copy_(chosen)
        self._graph.replay()

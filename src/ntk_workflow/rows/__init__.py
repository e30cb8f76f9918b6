"""What programs share that compute rows: all cells of one kernel, dataset and activation."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import sha256
from ntk_workflow import slurm_limits

#: What an error of a kernel that does not fit ends with.
TOO_LARGE = "lower kernel_size, or find a larger machine"


def available_memory(device: str = "cpu") -> int:
    """Return the bytes that a program may use: what its device has, or it was given of that."""
    if device == "cuda":
        import torch  # takes seconds, and kernels of infinite width do without

        return torch.cuda.mem_get_info()[0]
    return int(min(memory.available_bytes(), slurm_limits.granted_bytes()))


def samples_by_seed(
    paths: Sequence[Path], seeds: Sequence[int | None]
) -> Iterator[tuple[Any, NDArray[np.float64], str]]:
    """Yield each seed with its samples (n, d) and their file's digest: one for all, or each."""
    if len(paths) not in (1, len(seeds)):
        raise UserError(
            f"{len(paths)} files of data for {len(seeds)} seeds; give one for all or as many"
        )
    for number, seed in enumerate(seeds):
        if number < len(paths):
            x, digest = load_prepared(paths[number]).x, sha256(paths[number])
        yield seed, x, digest

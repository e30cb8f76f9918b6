"""Write src/ntk_workflow/explorer/pairs.yaml, what the explorer shows of pairs of samples.

PYTHONPATH=src python -m tests.explorer_pairs
"""

import json

import numpy as np

from ntk_conditioning.files import write_text
from ntk_conditioning.kernels.tabulated import tables
from ntk_conditioning.networks import activations
from ntk_workflow.explorer.data import plain
from ntk_workflow.explorer.pairs import ACTIVATIONS, ANGLES, COMPUTED, DEPTHS


def computed() -> dict[str, np.ndarray]:
    """Return angles between gradients in degrees, by the theory of infinite width."""
    w = 2 * np.sin(np.radians(ANGLES) / 2) ** 2
    by_depth = [tables(activations.get(name), DEPTHS) for name in ACTIVATIONS]
    gaps = np.concatenate([table[depth](w) for table in by_depth for depth in DEPTHS])
    gradient = np.degrees(2 * np.arcsin(np.sqrt(np.clip(gaps / 2, 0, 1))))
    return {"gradient": gradient}


if __name__ == "__main__":
    found = {name: [plain(value) for value in values] for name, values in computed().items()}
    write_text(COMPUTED, json.dumps(found, separators=(",\n", ": ")) + "\n")

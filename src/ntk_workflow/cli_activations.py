"""The user's own activations, which programs are given as files."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation


def load_activation_files(files: Sequence[Path]) -> None:
    """Register the activations of the files that a program was given."""
    for path in files:
        activations.load_plugin(path)


def load_activations(names: Iterable[str], files: Sequence[Path]) -> dict[str, Activation]:
    """Return activations by name, among them those that files register."""
    load_activation_files(files)
    return {name: activations.get(name) for name in names}

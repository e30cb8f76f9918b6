"""A run as one file that anyone can check: an RO-Crate in a BagIt bag in a zip archive.

The archive has one folder, the bag, whose payload ``data/`` is the crate. All three formats are
open and are read without this package. The same run gives the same bytes.
"""

from collections.abc import Mapping

from ntk_conditioning.errors import UserError


class BundleError(UserError):
    """The parts of a bundle, or of what is to be bundled, contradict each other."""


def in_words(key: Mapping[str, object]) -> str:
    """Return by what a row is told from others, for a message.

    >>> in_words({"dataset": "digits", "depth": 2, "seed": None})
    'dataset digits, depth 2'
    """
    return ", ".join(f"{name} {value}" for name, value in key.items() if value is not None)

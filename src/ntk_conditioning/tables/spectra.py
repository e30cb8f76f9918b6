"""The table of spectra: one row per kernel block."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ntk_conditioning.tables import declared

if TYPE_CHECKING:
    from ntk_conditioning.spectra.conditioning import Conditioning

SPECTRA = declared(__file__)


def spectra_row(result: Conditioning, *, eigenvalues: bool) -> dict[str, Any]:
    """Return the columns of a block that its conditioning gives, with or without eigenvalues."""
    row = {field.name: getattr(result, field.name) for field in fields(result)}
    kept = result.eigenvalues if eigenvalues else None
    return row | {"eigenvalues": None if kept is None else kept.tolist()}

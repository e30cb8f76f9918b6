"""What the papers prove, as functions to compare with: a module for each paper."""

from ntk_conditioning.errors import UserError


class DomainError(UserError):
    """An argument lies outside the domain of a theorem."""

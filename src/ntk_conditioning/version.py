"""The version of this project.

A module of its own, which no program imports for what it computes: a new version alone is no reason
to compute anything again.
"""

__version__ = "0.2.0"

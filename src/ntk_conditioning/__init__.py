"""Conditioning of neural tangent kernels: arrays in, arrays out.

    from ntk_conditioning import condition, ntk, ntk_operator

    k = ntk(model, x)  # the kernel of any torch module
    condition(k).kappa
    condition(ntk_operator(model, many))  # bounds, without the kernel

All else is imported from the modules: ``from ntk_conditioning.kernels import empirical``. Nothing
is imported before it is used, so that a job loads only what it needs.
"""

from importlib import import_module
from typing import Any

__all__ = ["__version__", "condition", "ntk", "ntk_operator"]  # their types are in __init__.pyi

# No imports, not even for types: a job's code is all that it imports, and would change with these.
_HOMES = {
    "__version__": "version",
    "condition": "spectra.operators",
    "ntk": "kernels.modules",
    "ntk_operator": "kernels.operator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

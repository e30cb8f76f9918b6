"""Which tensors of a forward pass hold sample i in row i, whatever the samples are.

All others may hold them in an order that depends on the samples, and are tested on each batch.
"""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

#: Layers that treat each row of their input alone, by the names of torch's functions.
_LAYERS = {
    *("linear", "embedding", "conv1d", "conv2d", "conv3d", "dropout", "pad"),
    *("batch_norm", "layer_norm", "group_norm", "rms_norm"),
    *(f"{kind}_pool{dims}d" for kind in ("max", "avg", "adaptive_avg") for dims in (1, 2, 3)),
}
#: Functions of each entry alone.
_ENTRYWISE = {
    *("relu", "gelu", "silu", "elu", "selu", "leaky_relu", "softplus", "sigmoid", "tanh", "erf"),
    *("sin", "cos", "exp", "neg", "abs", "square", "pow", "clone", "contiguous", "float", "double"),
    *(f"{how}{name}" for how in ("", "r", "i") for name in ("add", "sub", "mul", "div", "truediv")),
}
_RESHAPING = {"flatten", "reshape", "view", "unflatten"}
#: What is asked of a tensor without a look at its entries.
_SIZES = {"get", "size", "dim", "len", "numel"}


class Rows:
    """The tensors of a forward pass that hold the sample of each row of ``inputs`` in this row.

    They are known as long as nothing else has been done with one of them.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self._n, self._are_certain = len(inputs[0]), True
        self._known: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        for t in inputs:
            self._add(t)

    def _add(self, t: Tensor) -> None:
        self._known[id(t)] = weakref.ref(t), t._version

    def __contains__(self, t: Any) -> bool:
        """Return whether the rows of a tensor are those of the samples for certain."""
        reference, version = self._known.get(id(t), (None, 0))
        known = reference() if self._are_certain and reference else None
        # of another version, if something else has changed it in place
        return known is not None and known is t and known._version == version

    def follow(self, func: Any, args: Any, kwargs: Any, made: Any) -> None:
        """Take note of a call and its result."""
        given, name = [*tensors((args, kwargs))], getattr(func, "__name__", "").strip("_")
        rows = [t for t in given if t in self]
        if not rows:
            return  # of weights and constants
        if self._keep(name, args, given, rows, made):
            self._add(made)
        elif name not in _SIZES or any(True for _ in tensors(made)):
            self._are_certain = False

    def _keep(
        self, name: str, args: Any, given: Sequence[Tensor], rows: Sequence[Tensor], made: Any
    ) -> bool:
        """Return whether a function of this name leaves every row where it is."""
        if not isinstance(made, Tensor) or not made.ndim or len(made) != self._n:
            return False
        alone, ndim = len(rows) == 1, rows[0].ndim
        if name == "linear":
            return alone and ndim > 1
        if name.startswith("conv"):  # of fewer dimensions, the samples would be channels
            return alone and name in _LAYERS and all(t.ndim in (1, ndim) for t in given)
        if name == "pad":
            return alone and len(args[1]) < 2 * ndim
        if name in _ENTRYWISE:
            constants = [t for t in given if t not in self]
            return all(t.ndim == made.ndim for t in rows) and all(
                t.ndim < made.ndim or len(t) == 1 for t in constants
            )
        if name == "getitem":
            return (
                isinstance(args[1], tuple)
                and isinstance(args[1][0], slice)
                and args[1][0] == slice(None)
            )
        return alone and name in _LAYERS | _RESHAPING


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))

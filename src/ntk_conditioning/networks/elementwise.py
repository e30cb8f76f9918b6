"""NumPy arrays that answer the methods of tensors which the package's own activations call.

So one definition of an activation serves networks, on tensors, and kernels at infinite width: to
import torch takes seconds.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

#: Methods of tensors that are functions of NumPy, and of SciPy by their names there.
_NUMPY = ("exp", "expm1", "log1p", "sign", "square", "tanh")
_SCIPY = {"erf": "erf", "sigmoid": "expit"}


class Elementwise(np.ndarray[Any, Any]):
    """A view of an array: ``z.view(Elementwise).tanh()``.

    >>> np.array([-1.0, 0.0, 2.0]).view(Elementwise).clamp(min=0)
    Elementwise([0., 0., 2.])
    """

    def __getattr__(self, name: str) -> Any:
        if name in _NUMPY:
            return lambda: getattr(np, name)(self)
        if name not in _SCIPY:
            raise AttributeError(f"{type(self).__name__} has no {name}; tensors have more methods")
        from scipy import special  # each start of the workflow would wait for it

        return lambda: getattr(special, _SCIPY[name])(self)

    def clamp(self, min: float | None = None, max: float | None = None) -> Any:
        """Return the values, or the ends for those beyond them."""
        return np.clip(self, min, max)

    def to(self, dtype: DTypeLike) -> Any:
        """Return the values in another type."""
        return self.astype(dtype)

    def new_ones(self, shape: tuple[int, ...]) -> Any:
        """Return ones in this type."""
        return np.ones(shape, self.dtype)

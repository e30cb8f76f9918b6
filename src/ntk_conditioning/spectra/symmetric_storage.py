"""A symmetric matrix on a GPU, factored in its own memory, a panel of columns at a time.

The lower triangle becomes Cholesky's factor: of each panel, the square on the diagonal is factored,
what is below it solved for, and its products taken from the panels to the right (Golub & Van Loan
2013, "Matrix Computations", Section 4.2). The upper triangle stays the matrix's own, and the
diagonal is kept apart. So a kernel of 60,000 samples in float64, 28.8 GB, is conditioned on a GPU
of 40 GB, where a factor of its own would not fit beside it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning import memory
from ntk_conditioning.angles.pairs import spans
from ntk_conditioning.spectra.factorisations import InMemoryMatrix, Vector

#: Columns of a panel: enough for products at a GPU's full rate, few beside those of the matrix.
PANEL = 2048


def scratch_bytes(n: int, *, itemsize: int) -> int:
    """Return the bytes that factoring a matrix (n, n) takes beside it: three copies of a panel."""
    return 3 * min(n, PANEL) * n * itemsize


class PanelMatrix:
    """A symmetric tensor (n, n) that `extreme_conditioning` solves in the tensor's own memory.

    Its methods are those of `InMemoryMatrix`. L D L^T, for a matrix whose rank is not full, is the
    host's.
    """

    def __init__(self, k: Tensor, *, overwrite: bool, panel: int = PANEL) -> None:
        self._k = k if overwrite else k.clone()
        self.n = len(k)
        self._diagonal = k.diagonal().clone()
        self.diagonal: NDArray[Any] = self._diagonal.numpy(force=True)
        self._panels = [*spans(self.n, panel)]
        self._factored = False
        self._host: InMemoryMatrix | None = None

    def multiply(self, v: Vector) -> Vector:
        if self._host is not None:
            return self._host.multiply(v)
        x = self._here(v)
        product = self._diagonal * x
        for c in self._panels:
            square, beside = self._k[c, c].triu(1), slice(c.stop, self.n)
            product[c] += square @ x[c] + square.mT @ x[c] + self._k[c, beside] @ x[beside]
            product[beside] += self._k[c, beside].mT @ x[c]
        return self._away(product)

    def frobenius(self) -> float:
        return float(torch.linalg.vector_norm(self._k))

    def factor(self, shift: float) -> bool:
        self._restore(shift)
        for number, c in enumerate(self._panels):
            square, below = self._k[c, c], slice(c.stop, self.n)
            root, info = torch.linalg.cholesky_ex(square)
            if int(info):
                return False
            _set_lower(square, root)
            panel = self._k[below, c]
            panel.copy_(torch.linalg.solve_triangular(root.mT, panel, upper=True, left=False))
            for other in self._panels[number + 1 :]:
                block = self._k[other, c]
                _set_lower(self._k[other, other], self._k[other, other] - block @ block.mT)
                under = slice(other.stop, self.n)
                self._k[under, other].addmm_(self._k[under, c], block.mT, alpha=-1)
        return True

    def solve(self, v: Vector) -> Vector:
        x = self._here(v).clone()
        for c in self._panels:
            column = (x[c] - self._k[c, : c.start] @ x[: c.start])[:, None]
            x[c] = torch.linalg.solve_triangular(self._k[c, c], column, upper=False)[:, 0]
        for c in reversed(self._panels):
            column = (x[c] - self._k[c.stop :, c].mT @ x[c.stop :])[:, None]
            x[c] = torch.linalg.solve_triangular(self._k[c, c].mT, column, upper=True)[:, 0]
        return self._away(x)

    def factor_shifted(self, shift: float) -> int:
        return self._on_host().factor_shifted(shift)

    def solve_shifted(self, v: Vector) -> Vector:
        assert self._host is not None
        return self._host.solve_shifted(v)

    def whole(self) -> NDArray[Any]:
        return self._on_host().whole()

    def _on_host(self) -> InMemoryMatrix:
        """Return K in the host's memory.

        Raises `NotEnoughMemoryError` if that does not hold it.
        """
        if self._host is None:
            what = f"a kernel of {self.n} samples without full rank, or with close eigenvalues,"
            memory.require(self._k.nbytes, what)
            self._restore(0.0)
            self._host = InMemoryMatrix(self._k.numpy(force=True), overwrite=True)
        return self._host

    def _restore(self, shift: float) -> None:
        for c in self._panels if self._factored else ():
            below = slice(c.stop, self.n)
            self._k[below, c] = self._k[c, below].mT
            _set_lower(self._k[c, c], self._k[c, c].mT)
        self._k.diagonal().copy_(self._diagonal + shift)
        self._factored = True

    def _here(self, v: Vector) -> Tensor:
        return torch.from_numpy(v).to(device=self._k.device, dtype=self._k.dtype)

    @staticmethod
    def _away(v: Tensor) -> Vector:
        return np.asarray(v.double().numpy(force=True))


def _set_lower(square: Tensor, other: Tensor) -> None:
    """Set the lower triangle of a square, with the diagonal, to another's."""
    square.copy_(other.tril() + square.triu(1))

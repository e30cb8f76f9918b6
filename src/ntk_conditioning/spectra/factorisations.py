"""A symmetric matrix and its factors: in memory, in place by LAPACK, or on a GPU by torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from ntk_conditioning import memory
from ntk_conditioning.angles.pairs import upper_tiles

if TYPE_CHECKING:
    from torch import Tensor

Vector = NDArray[np.float64]


class InMemoryMatrix:
    """A symmetric matrix K in memory, of which the lower triangle becomes a factor in its place.

    The upper triangle stays K's; its diagonal is kept apart.
    """

    def __init__(self, k: NDArray[Any], *, overwrite: bool) -> None:
        # K is its own transpose, so that either order in memory is LAPACK's column-major one.
        columns = k if k.flags.f_contiguous else k.T
        self._a = np.asfortranarray(columns) if overwrite else np.array(columns, order="F")
        self.n = len(self._a)
        self.diagonal = self._a.diagonal().copy()
        self._symv, self._trsv = get_blas_funcs(("symv", "trsv"), (self._a,))
        names = ("potrf", "sytrf", "sytrf_lwork", "sytrs")
        lapack = get_lapack_funcs(names, (self._a,))
        self._potrf, self._sytrf, self._sytrf_lwork, self._sytrs = lapack
        self._factored = False

    def multiply(self, v: Vector) -> Vector:
        """Return K v, from the upper triangle."""
        factors = self._a.diagonal().copy()
        np.fill_diagonal(self._a, self.diagonal)
        product = self._symv(1.0, self._a, v.astype(self._a.dtype), lower=0)
        np.fill_diagonal(self._a, factors)
        return np.asarray(product, dtype=np.float64)

    def frobenius(self) -> float:
        """Return the Frobenius norm of K, before it is factored."""
        return float(np.linalg.norm(self._a))

    def factor(self, shift: float = 0.0) -> bool:
        """Put Cholesky's factor of K + shift I into the lower triangle, if there is one."""
        self._restore(shift)
        _, info = self._potrf(self._a, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def solve(self, v: Vector) -> Vector:
        """Return K^-1 v, after `factor`."""
        half = self._trsv(self._a, v.astype(self._a.dtype), lower=1, overwrite_x=1)
        whole = self._trsv(self._a, half, lower=1, trans=1, overwrite_x=1)
        return np.asarray(whole, dtype=np.float64)

    def factor_shifted(self, shift: float) -> int:
        """Put L D L^T of K - shift I into the lower triangle; return its positive eigenvalues.

        Pivots of D are numbers, or 2 × 2 with one eigenvalue of either sign.
        """
        self._restore(-shift)
        size, _ = self._sytrf_lwork(self.n, lower=1)
        _, pivots, _ = self._sytrf(self._a, lower=1, lwork=int(size), overwrite_a=1)
        self._pivots, single = pivots, pivots > 0
        positive = np.count_nonzero(self._a.diagonal()[single] > 0)
        return int(positive + np.count_nonzero(~single) // 2)

    def solve_shifted(self, v: Vector) -> Vector:
        """Return (K - shift I)^-1 v, after `factor_shifted`."""
        x, _ = self._sytrs(self._a, self._pivots, v.astype(self._a.dtype)[:, None], lower=1)
        return np.asarray(x[:, 0], dtype=np.float64)

    def whole(self) -> NDArray[Any]:
        """Return K, in its place.

        Raises `NotEnoughMemoryError` if memory does not hold the copy that a solver takes.
        """
        memory.require(8 * self.n**2, f"the whole spectrum of a kernel of {self.n} samples")
        self._restore(0.0)
        return self._a

    def on_host(self) -> InMemoryMatrix:
        return self

    def _restore(self, shift: float) -> None:
        """Put K + shift I into the lower triangle and the diagonal."""
        for r, c in upper_tiles(self.n, 1024) if self._factored else ():
            tile = np.triu(self._a[r, c], 1) if r == c else self._a[r, c]
            self._a[c, r] = tile + tile.T if r == c else tile.T
        np.fill_diagonal(self._a, self.diagonal + self._a.dtype.type(shift))
        self._factored = True


class DeviceMatrix:
    """A symmetric tensor K (n, n) on a GPU, with Cholesky's factor beside it.

    Its methods are those of `InMemoryMatrix`.
    """

    def __init__(self, k: Tensor) -> None:
        self._k, self.n = k, len(k)
        self.diagonal: NDArray[Any] = k.diagonal().numpy(force=True)

    def multiply(self, v: Vector) -> Vector:
        return self._to_host(self._k @ self._k.new_tensor(v))

    def frobenius(self) -> float:
        return float(self._k.norm())

    def factor(self) -> bool:
        from torch.linalg import cholesky_ex

        self._root, info = cholesky_ex(self._k)
        return not int(info)

    def solve(self, v: Vector) -> Vector:
        from torch.linalg import solve_triangular  # cholesky_solve would copy the factor

        half = solve_triangular(self._root, self._k.new_tensor(v)[:, None], upper=False)
        return self._to_host(solve_triangular(self._root.mT, half, upper=True)[:, 0])

    def on_host(self) -> InMemoryMatrix:
        """Return K in the host's memory; raises `NotEnoughMemoryError` if that does not hold it."""
        what = f"a kernel of {self.n} samples without full rank, or with close eigenvalues,"
        memory.require(self._k.nbytes, what)
        return InMemoryMatrix(self._k.numpy(force=True), overwrite=self._k.is_cuda)

    @staticmethod
    def _to_host(v: Tensor) -> Vector:
        return np.asarray(v.double().numpy(force=True))

"""Neural tangent and NNGP kernels, of networks of finite and of infinite width."""

from __future__ import annotations

#: The NTK of networks of finite width.
EMPIRICAL = "empirical_ntk"
#: Kernels of networks of finite width; every other kernel is a limit, without weights.
FINITE = (EMPIRICAL, "empirical_nngp")
INFINITE = ("infinite_ntk", "nngp")
#: Kernels that are inner products of model gradients, between which angles are measured.
GRADIENT_KERNELS = (EMPIRICAL, "infinite_ntk")

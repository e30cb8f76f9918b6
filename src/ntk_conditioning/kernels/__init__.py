"""Neural tangent and NNGP kernels, of networks of finite and of infinite width."""

#: The NTK of networks of finite width.
EMPIRICAL = "empirical_ntk"
#: Kernels that are inner products of model gradients, between which angles are measured.
GRADIENT_KERNELS = (EMPIRICAL, "infinite_ntk")

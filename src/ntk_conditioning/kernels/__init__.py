"""Neural tangent and NNGP kernels, of networks of finite and of infinite width."""

"""Neural tangent and NNGP kernels, of networks of finite and of infinite width.

Finite width: `modules.ntk` for any torch module, from `traces`, `sample_gradients` and
`kernel_terms`; `empirical` for an `MLP`; `sampled` for many random ones. Infinite width: `infinite`
(the recursion is in `infinite_network`), `infinite_convolutional`, and tables of many depths in
`depth_profiles` and `interpolated_kernels`.
"""

#: The NTK of networks of finite width.
EMPIRICAL = "empirical_ntk"

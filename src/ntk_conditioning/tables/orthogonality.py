"""The table of angles between the gradients of a layer's neurons, after liu2022transition."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

#: What tells the networks of both studies of width apart.
NETWORK = (
    Column("dataset", pa.string(), "name of the dataset"),
    Column("architecture", pa.string(), "name of the architecture"),
    Column("hidden", pa.string(), "widths of the hidden layers, as 1000-64-1000"),
    Column("activation", pa.string(), "name of the activation"),
    Column("width", pa.int64(), "the width that varies, m"),
)

ORTHOGONALITY = Table(
    name="orthogonality",
    description=(
        "Angles between the gradients of all neurons of a hidden layer, each by the weights up to "
        "the layer, before and after full-batch gradient descent (liu2022transition, Eq. (22))."
    ),
    keys=("dataset", "architecture", "activation", "width", "layer", "trained", "seed"),
    columns=(
        *NETWORK,
        Column("layer", pa.int64(), "number of the hidden layer, from 1"),
        Column("trained", pa.bool_(), "whether after the training"),
        Column("seed", pa.int64(), "seed of the initialisation"),
        Column("layer_width", pa.int64(), "neurons of the layer"),
        Column("fan_in", pa.int64(), "inputs of each of them"),
        Column("n", pa.int64(), "samples"),
        Column("d", pa.int64(), "input dimension"),
        Column("steps", pa.int64(), "steps of gradient descent"),
        Column("loss", pa.float64(), "1/2 sum (f - y)², of labels -1 and 1"),
        Column("cos_mean", pa.float64(), "mean |cos| over all pairs of neurons and all samples"),
        Column("cos_rms", pa.float64(), "root of the mean cos²"),
        Column("cos_max", pa.float64(), "largest |cos|"),
        Column("cos_above", pa.float64(), "share of pairs with |cos| above 0.1"),
        Column(
            "cos_norm",
            pa.float64(),
            "spectral norm of the matrix of cosines at the first sample; Eq. (18) takes it to be 1",
        ),
        Column(
            "jacobian_norm",
            pa.float64(),
            "spectral norm of the inner products of the post-activations' gradients, at the first "
            "sample (Lemma 3)",
        ),
        Column("gradient_max", pa.float64(), "largest squared norm of a neuron's gradient"),
    ),
)

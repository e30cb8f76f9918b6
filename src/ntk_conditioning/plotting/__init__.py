"""How figures look: names and colours, style and sizes, curves and axes, marks of what is missing.

Only drawing: every number that is drawn comes from a table or from another module.
"""

from ntk_conditioning.plotting.axes import (
    DEPTH,
    EIGENVALUE,
    EIGENVALUE_INDEX,
    GRADIENT_ANGLE,
    INPUT_ANGLE,
    KAPPA,
    MIN_ANGLE,
    degree_axis,
    depth_axis,
    plain_log,
)
from ntk_conditioning.plotting.curves import (
    band_handle,
    draw_curve,
    legend_below,
    line_handle,
)
from ntk_conditioning.plotting.line_ends import (
    label_line_ends,
    spread,
)
from ntk_conditioning.plotting.missing import (
    LOWER_BOUND,
    UP,
    mark_lower_bounds,
    mark_off_scale,
)
from ntk_conditioning.plotting.names import (
    DASHED,
    activation_colors,
    activation_label,
    activation_lines,
    dataset_colors,
    dataset_label,
    dataset_order,
    depth_colors,
)
from ntk_conditioning.plotting.networks import (
    draw_accuracies,
    draw_metric,
    epoch_axis,
    network_color,
    network_label,
    scale_handles,
)
from ntk_conditioning.plotting.style import (
    DOUBLE_COLUMN,
    NOTE,
    PAGE,
    RULE_COLOR,
    SINGLE_COLUMN,
    save_figure,
    use_style,
)

__all__ = [
    "DASHED",
    "DEPTH",
    "DOUBLE_COLUMN",
    "EIGENVALUE",
    "EIGENVALUE_INDEX",
    "GRADIENT_ANGLE",
    "INPUT_ANGLE",
    "KAPPA",
    "LOWER_BOUND",
    "MIN_ANGLE",
    "NOTE",
    "PAGE",
    "RULE_COLOR",
    "SINGLE_COLUMN",
    "UP",
    "activation_colors",
    "activation_label",
    "activation_lines",
    "band_handle",
    "dataset_colors",
    "dataset_label",
    "dataset_order",
    "degree_axis",
    "depth_axis",
    "depth_colors",
    "draw_accuracies",
    "draw_curve",
    "draw_metric",
    "epoch_axis",
    "label_line_ends",
    "legend_below",
    "line_handle",
    "mark_lower_bounds",
    "mark_off_scale",
    "network_color",
    "network_label",
    "plain_log",
    "save_figure",
    "scale_handles",
    "spread",
    "use_style",
]

"""How figures look, and nothing else: every number that is drawn comes from another module."""
# ruff: noqa: F401

from ntk_conditioning.plotting.axes import (
    DEPTH,
    KAPPA,
    band_handle,
    depth_axis,
    draw_curve,
    legend_below,
    line_handle,
    plain_log,
)
from ntk_conditioning.plotting.marks import LOWER_BOUND, UP, label_line_ends, mark_off_scale
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
    model_families,
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

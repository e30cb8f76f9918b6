"""How figures look, and nothing else: every number that is drawn comes from another module."""
# ruff: noqa: F401

from ntk_conditioning.plotting.axes import (
    DEPTH,
    KAPPA,
    band_handle,
    depth_axis,
    draw_curve,
    label_panels,
    legend_below,
    line_handle,
    plain_log,
    seed_bands,
    sparse,
)
from ntk_conditioning.plotting.curves import (
    band_sample,
    curves,
    legend,
    sample,
    samples,
    seed_samples,
)
from ntk_conditioning.plotting.looks import label
from ntk_conditioning.plotting.marks import (
    ERROR,
    HOLLOW,
    LOWER_BOUND,
    UP,
    arrow_heights,
    arrows,
    draw_errors,
    error_bars,
    label_line_ends,
    lower_bounds,
    mark_off_scale,
)
from ntk_conditioning.plotting.names import (
    DASHED,
    activation_colors,
    activation_label,
    activation_lines,
    activation_markers,
    architecture_colors,
    architecture_label,
    architecture_markers,
    dataset_colors,
    dataset_label,
    dataset_markers,
    dataset_order,
    depth_colors,
    depth_markers,
    experiment_label,
)
from ntk_conditioning.plotting.networks import (
    CHANCE,
    draw_accuracies,
    draw_metric,
    epoch_axis,
    model_families,
    network_label,
    network_look,
    widths,
)
from ntk_conditioning.plotting.theme import (
    DOUBLE_COLUMN,
    NOTE,
    PAGE,
    RULE_COLOR,
    SINGLE_COLUMN,
    save_figure,
    use_style,
    use_theme,
)

"""How figures look, and nothing else: every number that is drawn comes from another module."""
# ruff: noqa: F401

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.axes import (
    DEPTH,
    ERROR,
    HOLLOW,
    KAPPA,
    LOWER_BOUND,
    UP,
    arrows,
    depth_axis,
    error_bars,
    label_panels,
    plain_log,
)
from ntk_conditioning.plotting.lines import (
    band_sample,
    curves,
    legend,
    sample,
    samples,
    seed_samples,
)
from ntk_conditioning.plotting.looks import label
from ntk_conditioning.plotting.networks import (
    CHANCE,
    draw_accuracies,
    epoch_axis,
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
    use_theme,
)

"""Measure activations: Hermite coefficients, how far from affine they are, where duals tend."""

from ntk_conditioning import tables
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.duals.length_maps import length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import NORMALIZED, normrelu_constants
from ntk_conditioning.theory import depth
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    names = ("activation", "activation-file", "output")
    args = cli.Parser(*names, description=__doc__).parse_args(argv)

    activations.load(args.activation, args.activation_file)
    plain = [name.removeprefix(NORMALIZED) for name in args.activation]
    both = dict.fromkeys([*args.activation, *(NORMALIZED + name for name in plain)])
    cli.log.info("device cpu, float64, %d activations, as they are and normalised", len(both))
    rows = []
    for sigma in map(activations.get, both):
        series, point, gain = expansion(sigma), fixed_point(sigma), sigma.gain
        is_normrelu = activations.base_name(sigma.name) == "normrelu"
        scale, offset = normrelu_constants(*sigma.kinks) if is_normrelu else (None, None)
        mean, slope = series.coefficients[:2].tolist()
        row = {
            "activation": sigma.name,
            "base": sigma.name.removeprefix(NORMALIZED),
            "normalized": sigma.name.startswith(NORMALIZED),
            "mean": mean,
            "gain": gain,
            "deviation": (series.bend + slope**2) ** 0.5,
            "kinks": list(sigma.kinks),
            "kink": sigma.kinks[0] if is_normrelu else None,
            "scale": scale,
            "offset": offset,
            "coefficients": (gain * series.coefficients).tolist(),
            "coefficient_error": float(gain * series.errors.max()),
            "tail": series.tail,
            "a_1": gain * slope,
            "non_linearity": series.non_linearity,
            "non_affinity": series.non_affinity,
            "non_linearity_error": series.error,
            "fixed_point": point.rho,
            "fixed_point_error": point.error,
            "slope_at_fixed_point": point.slope,
            "slope_at_one": point.slope_at_one,
            "phase": depth.phase(sigma),
            "deep_rate": depth.deep_rate(sigma),
            "length_map_slope": float(length_map_slope(sigma, 1.0)),
        }
        rows.append(row)
    tables.write(args.output, "activations", rows)

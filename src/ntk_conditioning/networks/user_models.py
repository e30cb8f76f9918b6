"""User networks: a function in a Python file that builds a torch module, see docs/own_network.md.

It is called with `KEYWORDS`. Its activation is a module and has the scale ``gain``; ``shape`` is
that of a sample, (d,) or (colours, height, width).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import Sizes
from ntk_conditioning.networks.layers import Elementwise
from ntk_conditioning.networks.modules import Network
from ntk_conditioning.networks.user_files import described, run_file

#: What a function that builds networks is given.
KEYWORDS = ("depth", "width", "activation", "shape", "outputs", "generator")


class OwnNetworkError(UserError):
    """A function of the user's does not build a network that can be trained."""


@dataclass(frozen=True)
class UserModel:
    """A user's kind of network: ``build`` is the function named ``function`` in ``file``."""

    file: Path
    function: str
    build: Callable[..., Any]

    def error(self, problem: str) -> OwnNetworkError:
        """Return an error that begins with the file and the function."""
        return OwnNetworkError(f"{self.file}: {self.function}() {problem}")


class OwnNetwork(Network):
    """A user's module as a `Network` without known representations."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__([module], nn.Identity())

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.body(x), None


def load(file: str | Path, function: str) -> UserModel:
    """Return the kind of network that a function of a Python file builds; the file is executed.

    Raises `PluginError` as `run_file`, `OwnNetworkError` without such a function of such arguments.
    """
    build: Any = run_file(file).get(function)
    model = UserModel(Path(file), function, build)
    takes = f"write def {function}(*, {', '.join(KEYWORDS)})"
    if not callable(build):
        raise model.error(f"is not there; {takes}")
    try:
        inspect.signature(build).bind(**dict.fromkeys(KEYWORDS))
    except TypeError as error:
        raise model.error(f"takes other arguments ({error}); {takes}") from error
    return model


def make_user_network(
    model: UserModel,
    rng: np.random.Generator,
    *,
    d: int,
    image: tuple[int, int, int] | None,
    depth: int,
    width: int,
    activation: Activation,
    outputs: int,
    dtype: torch.dtype,
) -> OwnNetwork:
    """Return a user's network at initialisation, on the CPU, as `modules.make_network` does.

    The function gets a `torch.Generator` seeded from ``rng``; torch's global one stays as it was.

    Raises `OwnNetworkError` if the function fails, or returns no module or one of lazy layers.
    """
    shape, generator = _shape(d, image), torch.Generator().manual_seed(int(rng.integers(2**63)))
    given = depth, width, Elementwise(activation), shape, outputs, generator
    with torch.random.fork_rng(devices=[]):
        # a random global seed, so that networks that depend on it are seen not to be reproducible
        torch.manual_seed(np.random.SeedSequence().generate_state(1).item())
        try:
            module = model.build(**dict(zip(KEYWORDS, given, strict=True)))
        except Exception as error:
            problem = f"fails at depth {depth}, width {width}, shape {shape}"
            raise model.error(f"{problem}: {described(error, model.file)}") from error
    if not isinstance(module, nn.Module):
        raise model.error(f"returns a {type(module).__name__}, and not a torch.nn.Module")
    if any(map(is_lazy, module.parameters())):
        raise model.error("returns a module with lazy layers; give them their number of inputs")
    return OwnNetwork(module.to(dtype))


def require_trainable(model: UserModel, **size: Any) -> None:
    """Check that a function builds networks which can be trained reproducibly.

    ``size`` is that of `make_user_network`, without the type.

    Raises `OwnNetworkError` if the function fails, weights are none, not finite or do not follow
    ``generator``, or outputs are not (n, outputs) for n samples, have no gradient, or differ from
    call to call, as with dropout; or if the module changes its input.
    """
    first, again, other = (
        make_user_network(model, np.random.default_rng(seed), **size, dtype=torch.float32)
        for seed in (1, 1, 2)
    )
    if not any(parameter.requires_grad for parameter in first.parameters()):
        raise model.error("returns a module without weights to train; give it some")
    for name, weight in first.body[0].named_parameters():
        if not torch.isfinite(weight).all():
            raise model.error(f"draws weights that are not finite: {name}")
    if not _equal(first, again):
        raise model.error(
            "gives other weights each time: draw all from generator, or begin with "
            "torch.manual_seed(generator.initial_seed())"
        )
    if _equal(first, other):
        raise model.error("gives the same weights for every seed: draw them from generator")
    before, calls = torch.get_rng_state(), ((first, 2), (again, 2), (other, 3))
    one, same, _ = (_outputs(model, network, n, **size) for network, n in calls)
    alike = torch.allclose(one, same, rtol=0, atol=0, equal_nan=True)
    # a few units may be dropped alike by chance
    if not alike or not torch.equal(torch.get_rng_state(), before):
        raise model.error(
            "gives a network whose outputs differ from one call to the next, as with dropout; a "
            "training could not go on after a stop: remove it"
        )


def _outputs(model: UserModel, network: OwnNetwork, n: int, **size: Any) -> Tensor:
    """Return the outputs for n normal samples; raise `OwnNetworkError` unless they can be used."""
    shape, outputs = _shape(size["d"], size["image"]), size["outputs"]
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((n, *shape))).float()
    given = x.clone()
    try:
        f: Any = network(x)[0]
    except Exception as error:
        problem = f"gives a network that fails on {n} samples of shape {shape}"
        raise model.error(f"{problem}: {described(error, model.file)}") from error
    actual = tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__
    if actual != (n, outputs):
        raise model.error(
            f"gives a network whose outputs for {n} samples are {actual}; with "
            f"outputs={outputs} they must be a tensor ({n}, {outputs})"
        )
    if not f.requires_grad:
        raise model.error("gives a network whose outputs have no gradient: do not detach them")
    if not torch.equal(x, given):
        raise model.error("gives a network that changes its input in place: let it make a new one")
    return torch.as_tensor(f)


def measure_sizes(model: UserModel, **size: Any) -> Sizes:
    """Return estimated sizes of a user's network, which is built and run on one sample.

    ``size`` are the arguments of `make_user_network` but ``dtype``. Matrices count once for each
    position where their module has outputs: an attention's products of tokens are left out.
    """
    rng = np.random.default_rng(0)
    network = make_user_network(model, rng, **size, dtype=torch.float32).eval()
    products = units = 0

    def count(module: nn.Module, _: Any, output: Any) -> None:
        nonlocal products, units
        out = output[0] if isinstance(output, tuple | list) else output
        if not isinstance(out, Tensor) or out.ndim < 2:
            return
        positions = out.numel() // out.shape[1 if hasattr(module, "kernel_size") else -1]
        products += positions * sum(
            w.numel() for w in module.parameters(recurse=False) if w.ndim > 1
        )
        units += 0 if [*module.children()] else out.numel()

    for module in network.body.modules():
        if not isinstance(module, torch.jit.ScriptModule):  # it takes no hooks
            module.register_forward_hook(count)
    _outputs(model, network, 1, **size)
    weights = sum(parameter.numel() for parameter in network.parameters())
    return Sizes(weights, max(weights, products), units)


def _shape(d: int, image: tuple[int, int, int] | None) -> tuple[int, ...]:
    return (d,) if image is None else (image[2], *image[:2])


def _equal(one: nn.Module, other: nn.Module) -> bool:
    """Return whether two networks have equal weights and statistics."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)

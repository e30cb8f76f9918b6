"""A module, the parameters by which it is differentiated, and checks of its inputs and outputs.

Everything here leaves the module as it was, and explains in one line what is wrong with it.
"""

import difflib
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_iter

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.networks.modules import MlpModule, Network

#: Names or patterns ("head.*"), with a "!" before those left out; or a test of (name, tensor).
Selection = str | Sequence[str] | Callable[[str, Tensor], bool]
#: A batch of samples: a tensor, or several tensors of which each has the samples first.
Inputs = Tensor | Sequence[Tensor]

DRAWS = (
    "the module draws random numbers, as dropout and stochastic depth do while training; call "
    "model.eval() or draw them before"
)
#: Torch's warning at a reentrant checkpoint, whose parameters then get no gradients.
NO_GRADIENTS = "None of the inputs have requires_grad"
_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
_DROPOUTS = nn.modules.dropout._DropoutNd
_EMBEDDINGS = nn.Embedding | nn.EmbeddingBag
_LOCK = RLock()


class ModuleError(UserError):
    """The module has no kernel as it is."""


class TrainingModeError(ModuleError):
    """A layer draws numbers or depends on the batch, as it does while training."""


class MixedSamplesError(ModuleError):
    """What the module gives for a sample depends on the other samples."""


class InputsError(UserError):
    """The inputs do not fit the module."""


class OutputsError(UserError):
    """The outputs are not a number or several for each sample, or there is none of this index."""


class ParametersError(UserError):
    """No parameter is selected."""


@dataclass(frozen=True, eq=False)
class DifferentiatedModule:
    """A module and the parameters, by name, whose gradients make its kernel."""

    model: nn.Module
    parameters: Mapping[str, Tensor]

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    def outputs(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the outputs (n, c) for copies of the inputs; an error is explained in one line."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", NO_GRADIENTS)
                returned = self.model(*(t.clone() for t in inputs))
        except Exception as error:
            if isinstance(error, UserError) or is_out_of_memory(error):
                raise
            raise _explained(error, self, inputs) from error
        return as_matrix(first(self.model, returned), len(inputs[0]))

    def outputs_with(self, parameters: Mapping[str, Tensor], *inputs: Tensor) -> Tensor:
        """Return the outputs (n, c) with other values of parameters, for `torch.func`."""
        returned = functional_call(self.model, dict(parameters), inputs)
        return as_matrix(first(self.model, returned), len(inputs[0]))


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; on a CPU, torch raises a plain RuntimeError then."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "CPUAllocator" in str(error)


def first(model: nn.Module, returned: Any) -> Any:
    """Return what a module returned; of the pair of a `networks.modules.Network` the outputs."""
    return returned[0] if isinstance(model, Network) else returned


def differentiated(model: nn.Module | MLP, selection: Selection | None) -> DifferentiatedModule:
    """Return the module with the selected parameters.

    Raises `ParametersError` if there are none, `ModuleError` and `TrainingModeError`.
    """
    if isinstance(model, MLP):
        if selection is not None:
            raise ParametersError("an MLP's weights have no names: leave out parameters=")
        model = MlpModule(model.weights, model.activation)
    if not isinstance(model, nn.Module):
        raise ModuleError(f"the model is a {type(model).__name__}: give a torch.nn.Module")
    with _LOCK:  # another thread may have exchanged the parameters
        for name, module in model.named_modules():
            _check(name or type(model).__name__, module)
        named = model.named_parameters(remove_duplicate=False)  # tied ones under all their names
        trainable = {name: p for name, p in named if p.requires_grad}
    if not trainable:
        raise ParametersError(
            "the module has no trainable parameter: call requires_grad_() on those that train"
        )
    names: dict[Tensor, str] = {}  # the first of a tied parameter's
    for name, p in select(trainable, selection).items():
        names.setdefault(p, name)
    return DifferentiatedModule(model, {name: p for p, name in names.items()})


def _check(name: str, module: nn.Module) -> None:
    """Raise `ModuleError` for a layer without a shape, or that changes, draws or mixes."""
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    if any(map(nn.parameter.is_lazy, tensors)):
        raise ModuleError(f"{name} has no shape yet: call the module once on a few samples")
    if isinstance(module, _EMBEDDINGS) and module.max_norm is not None:
        raise ModuleError(f"{name} shortens its weights in each call: set its max_norm to None")
    if isinstance(module, _BATCH_NORMS) and (module.training or module.running_mean is None):
        remedy = "call model.eval()"
        if module.running_mean is None:
            remedy = "it keeps no running statistics: build it with track_running_stats=True"
        raise TrainingModeError(f"{name} normalises by the batch, so that samples mix; {remedy}")
    if isinstance(module, _DROPOUTS) and module.training and module.p > 0:
        raise TrainingModeError(f"{name} drops units at random; call model.eval()")


def select(trainable: Mapping[str, Tensor], selection: Selection | None) -> dict[str, Tensor]:
    """Return the parameters that a selection names.

    >>> names = {"body.weight": 0, "body.bias": 0, "head.weight": 0}
    >>> [*select(names, "head.*")], [*select(names, ["*.weight", "!head.*"])]
    (['head.weight'], ['body.weight'])
    """
    if selection is None:
        return dict(trainable)
    if callable(selection):
        selected = {name: p for name, p in trainable.items() if selection(name, p)}
    else:
        patterns = [selection] if isinstance(selection, str) else [*selection]
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise ParametersError("parameters= takes names or patterns, at least one, or a test")
        wanted = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
        unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
        left = _matching(trainable, wanted) - _matching(trainable, unwanted)
        selected = {name: p for name, p in trainable.items() if name in left}
    if not selected:
        raise ParametersError(f"parameters={selection!r} leave no trainable parameter")
    return selected


def _matching(names: Collection[str], patterns: Iterable[str]) -> set[str]:
    """Return the names that a pattern matches or, as they may have brackets, equals."""
    matching = set[str]()
    for pattern in patterns:
        matches = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if not matches:
            close = difflib.get_close_matches(pattern, names, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
            raise ParametersError(f"no trainable parameter is called {pattern!r}; {hint}")
        matching |= matches
    return matching


def as_inputs(x: Inputs, device: torch.device | str | None, on: torch.device) -> list[Tensor]:
    """Return the tensors of a batch for a module that is ``on`` a device; they are not yet moved.

    Raises `InputsError`, also if they are on another device and ``device`` does not allow a move.
    """
    tensors = [x] if isinstance(x, Tensor) else [*x] if isinstance(x, tuple | list) else []
    if not tensors or not all(isinstance(t, Tensor) and t.ndim for t in tensors):
        raise InputsError(
            f"the samples are a {type(x).__name__}: give a tensor with samples first, as "
            "torch.from_numpy makes it, or a tuple of the module's inputs"
        )
    if any(t.layout != torch.strided for t in tensors):
        raise InputsError("the samples are sparse: give x.to_dense()")
    if len({len(t) for t in tensors}) > 1 or not len(tensors[0]):
        sizes = ", ".join(str(len(t)) for t in tensors)
        raise InputsError(f"the inputs have {sizes} samples; each needs the same, at least one")
    if device is not None and torch.device(device).type != on.type:
        raise InputsError(f"the module is on {on}: call model.to({str(device)!r}) first")
    if device is None and any(t.device != on for t in tensors):
        raise InputsError(
            f"the inputs are on {tensors[0].device} and the module on {on}: "
            f"give device={str(on)!r} or move one of them"
        )
    return tensors


def as_matrix(outputs: Any, n: int) -> Tensor:
    """Return outputs (n,) or (n, c) as a matrix (n, c). Raises `OutputsError` for all others."""
    if not isinstance(outputs, Tensor):
        raise OutputsError(
            f"the module returns a {type(outputs).__name__}: wrap it in one that returns a tensor"
        )
    shape = (1,) if n == 1 and outputs.ndim == 0 else outputs.shape  # it ends with squeeze()
    if len(shape) not in (1, 2) or shape[0] != n:
        raise OutputsError(
            f"the outputs of {n} samples have shape {tuple(shape)}, not (n,) or (n, c): "
            "flatten them behind the samples, and give squeeze() its dimension"
        )
    if not outputs.is_floating_point() or 0 in shape[1:]:
        raise OutputsError(
            f"the outputs are {outputs.dtype} of shape {tuple(shape)}: a kernel is of real ones"
        )
    return outputs.reshape(n, -1)


def _explained(
    error: Exception, module: DifferentiatedModule, inputs: Sequence[Tensor]
) -> UserError:
    """Return an error that explains why the module raised ``error`` for these inputs."""
    dtype = next(iter(module.parameters.values())).dtype
    for t in inputs:
        remedy = f"give x.to({dtype})"
        if t.is_floating_point() and t.dtype != dtype:
            return InputsError(f"the inputs are {t.dtype} and the parameters {dtype}: {remedy}")
        has_embedding = any(isinstance(m, _EMBEDDINGS) for m in module.model.modules())
        if not (t.is_floating_point() or t.is_complex() or has_embedding):
            what = f"the inputs are {t.dtype} and the module has no embedding"
            return InputsError(f"{what}: {remedy}")
    if NO_GRADIENTS in str(error):
        return ModuleError("a checkpoint in the module loses gradients: give use_reentrant=False")
    shapes = ", ".join(str(tuple(t.shape)) for t in inputs)
    problem = f"{type(error).__name__}: {one_line(error)}"
    return InputsError(f"the module takes no inputs of shape {shapes}: {problem}")


def require_unmixed(
    module: DifferentiatedModule, samples: Sequence[Tensor], alone: Tensor, eps: float
) -> None:
    """Raise `MixedSamplesError` unless samples have the same outputs together as ``alone`` (n, c).

    The tolerance is wide: rounding, of ``eps``, depends on the batch, and deep networks amplify it.
    """
    wrong = _differ(module.outputs(samples), alone, eps ** (1 / 3)).any(1)
    if wrong.any():
        layer = _mixing_layer(module, samples, int(wrong.long().argmax()), 1e4 * eps)
        raise MixedSamplesError(
            f"{layer} mixes samples, or depends on their place in the batch: what it gives for "
            "one is not what it gives for this one alone; replace it by a layer that treats "
            "each sample alone, or, if many layers stretch rounding, give float64"
        )


def _mixing_layer(
    module: DifferentiatedModule, samples: Sequence[Tensor], number: int, tolerance: float
) -> str:
    """Return the first layer whose result for a sample depends on the others."""
    names = {layer: name for name, layer in module.model.named_modules()}
    runs: list[list[tuple[nn.Module, Tensor]]] = []

    def keep(layer: nn.Module, args: Any, result: Any) -> None:
        runs[-1].extend((layer, t.detach().clone()) for t in tensors(result))

    for inputs in (samples, [t[number : number + 1] for t in samples]):
        runs.append([])
        with register_module_forward_hook(keep):
            module.outputs(inputs)
    for (layer, a), (_, b) in zip(*runs, strict=False):
        fits = a.ndim and len(a) == len(samples[0]) and a[:1].shape == b.shape
        if fits and _differ(a[number], b[0], tolerance).any():
            return names.get(layer) or f"the {type(layer).__name__}"
    return f"the {type(module.model).__name__}"


def _differ(a: Tensor, b: Tensor, tolerance: float) -> Tensor:
    """Return where two results differ by more than ``tolerance`` times the largest entry."""
    a, b = a.detach(), b.detach()
    if not a.is_floating_point() or not a.numel():
        return a != b
    size = max(float(t.abs().nan_to_num(0, 0, 0).max()) for t in (a, b))
    return ~torch.isclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True)


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dictionaries."""
    return [leaf for leaf in tree_iter(value) if isinstance(leaf, Tensor)]


@contextmanager
def computing(module: DifferentiatedModule) -> Iterator[None]:
    """Let a module compute in its own precision, and leave it and torch's generators as they were.

    Other threads wait: `torch.func` exchanges a module's parameters while it computes. Raises
    `TrainingModeError` if random numbers are drawn meanwhile.
    """
    with (
        _LOCK,
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast(module.device.type, enabled=False),
        torch.random.fork_rng([module.device] if module.device.type == "cuda" else []),
        full_precision(),
    ):
        buffers = [(layer._buffers, dict(layer._buffers)) for layer in module.model.modules()]
        contents = [(buffer, buffer.detach().clone()) for buffer in module.model.buffers()]
        drawn = random_state(module.device)
        try:
            yield
            require_nothing_drawn(drawn, module.device)
        finally:
            for of_layer, before in buffers:
                for name in set(of_layer.keys()) - before.keys():
                    del of_layer[name]
                for name, buffer in before.items():
                    of_layer[name] = buffer
            for buffer, content in contents:
                if not torch.equal(buffer, content):
                    buffer.copy_(content)


def random_state(device: torch.device) -> list[Any]:
    """Return the states of the generators that a module may draw from."""
    of_torch = [torch.get_rng_state().numpy().tobytes()]
    if device.type == "cuda":
        of_torch.append(torch.cuda.get_rng_state(device).numpy().tobytes())
    of_numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 what modules use
    return [*of_torch, random.getstate(), of_numpy["key"].tobytes(), of_numpy["pos"]]


def require_nothing_drawn(before: list[Any], device: torch.device) -> None:
    """Raise `TrainingModeError` if a generator has advanced, even if no output shows it."""
    if random_state(device) != before:
        raise TrainingModeError(DRAWS)

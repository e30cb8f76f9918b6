"""A module, the parameters by which it is differentiated, and checks of its inputs and outputs.

Everything here leaves the module as it was, and explains in one line what is wrong with it.
"""

import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.networks.modules import Network

#: Names or patterns ("head.*"), with a "!" before those left out; or a test of (name, tensor).
Selection = str | Sequence[str] | Callable[[str, Tensor], bool]
#: A batch of samples: a tensor, or several tensors of which each has the samples first.
Inputs = Tensor | Sequence[Tensor]

#: How torch warns of a reentrant checkpoint, whose parameters get no gradients then.
NO_GRADIENTS = "None of the inputs have requires_grad"
_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
_DROPOUTS = nn.modules.dropout._DropoutNd


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
        except (UserError, MemoryError):
            raise
        except Exception as error:
            raise _explained(error, self, inputs) from error
        return as_matrix(first(self.model, returned), len(inputs[0]))


def first(model: nn.Module, returned: Any) -> Any:
    """Return what a module returned, but of a `networks.modules.Network` only the outputs."""
    return returned[0] if isinstance(model, Network) else returned


def differentiated(model: nn.Module, selection: Selection | None) -> DifferentiatedModule:
    """Return the module with the selected parameters.

    Raises `ParametersError` if there are none, `ModuleError` and `TrainingModeError`.
    """
    if not isinstance(model, nn.Module):
        raise ModuleError(f"the model is a {type(model).__name__}: give a torch.nn.Module")
    for name, module in model.named_modules():
        _check(name or type(model).__name__, module)
    named = model.named_parameters(remove_duplicate=False)  # tied ones under all their names
    trainable = {name: p for name, p in named if p.requires_grad}
    if not trainable:
        raise ParametersError(
            "the module has no trainable parameter: call requires_grad_() on those that train"
        )
    named_by_id: dict[int, tuple[str, Tensor]] = {}  # with the first name of a tied parameter
    for name, p in select(trainable, selection).items():
        named_by_id.setdefault(id(p), (name, p))
    return DifferentiatedModule(model, dict(named_by_id.values()))


def _check(name: str, module: nn.Module) -> None:
    """Raise `ModuleError` for a layer without a shape, or that changes itself or mixes samples."""
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    if any(map(nn.parameter.is_lazy, tensors)):
        raise ModuleError(f"{name} has no shape yet: call the module once on a few samples")
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
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
        if not selected:
            raise ParametersError("parameters= selects no trainable parameter")
        return selected
    patterns = [selection] if isinstance(selection, str) else [*selection]
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise ParametersError("parameters= takes names or patterns, at least one, or a test")
    named = {pattern: _named(trainable, pattern.removeprefix("!")) for pattern in patterns}
    for pattern, names in named.items():
        if not names:
            close = difflib.get_close_matches(pattern, trainable, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(trainable)}"
            raise ParametersError(f"no trainable parameter is called {pattern!r}; {hint}")
    wanted = [names for pattern, names in named.items() if not pattern.startswith("!")]
    unwanted = [names for pattern, names in named.items() if pattern.startswith("!")]
    left = set().union(*(wanted or [set(trainable)])).difference(*unwanted)
    selected = {name: p for name, p in trainable.items() if name in left}
    if not selected:
        raise ParametersError(f"{patterns} leave no trainable parameter")
    return selected


def _named(names: Iterable[str], pattern: str) -> set[str]:
    """Return the names that a pattern matches or, as they may have brackets, equals."""
    return {name for name in names if name == pattern or fnmatchcase(name, pattern)}


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
    if n == 1 and outputs.ndim == 0:  # the module ends with squeeze()
        outputs = outputs.unsqueeze(0)
    if outputs.ndim not in (1, 2) or len(outputs) != n:
        raise OutputsError(
            f"the outputs of {n} samples have shape {tuple(outputs.shape)}, not (n,) or (n, c): "
            "flatten them behind the samples, and give squeeze() its dimension"
        )
    if not outputs.is_floating_point() or not outputs[:1].numel():
        raise OutputsError(
            f"the outputs are {outputs.dtype} of shape {tuple(outputs.shape)}: "
            "a kernel is of real ones"
        )
    matrix: Tensor = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs
    return matrix


def _explained(
    error: Exception, module: DifferentiatedModule, inputs: Sequence[Tensor]
) -> UserError:
    """Return an error that explains why the module raised ``error`` for these inputs."""
    dtype = next(iter(module.parameters.values())).dtype
    embeddings = nn.Embedding | nn.EmbeddingBag
    has_embedding = any(isinstance(m, embeddings) for m in module.model.modules())
    for t in inputs:
        whole = not t.is_floating_point() and not t.is_complex()
        if whole and not has_embedding:
            return InputsError(
                f"the inputs are {t.dtype} and the module has no embedding: give x.to({dtype})"
            )
        if t.is_floating_point() and t.dtype != dtype:
            return InputsError(
                f"the inputs are {t.dtype} and the parameters {dtype}: give x.to({dtype})"
            )
    if NO_GRADIENTS in str(error):
        return ModuleError("a checkpoint in the module loses gradients: give use_reentrant=False")
    shapes = ", ".join(str(tuple(t.shape)) for t in inputs)
    problem = f"{type(error).__name__}: {one_line(error)}"
    return InputsError(f"the module takes no inputs of shape {shapes}: {problem}")


@contextmanager
def unchanged(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Restore buffers and the states of random generators at the end, also after an error."""
    saved = [(buffer, buffer._version, buffer.detach().clone()) for buffer in model.buffers()]
    buffers_of = [(module, dict(module._buffers)) for module in model.modules()]
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            for module, buffers in buffers_of:
                for name, buffer in buffers.items():
                    if module._buffers[name] is not buffer:
                        module._buffers[name] = buffer
            with torch.no_grad():
                for buffer, version, before in saved:
                    if buffer._version != version:
                        buffer.copy_(before)

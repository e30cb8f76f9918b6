"""What is found out on two or three samples before a kernel is made.

In which dimension of each call's result the samples lie; that they do not mix; and that the watched
gradients by each parameter are those of automatic differentiation. A parameter for which they are
not is differentiated automatically, which is slow, and the log says so.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ntk_conditioning.kernels.gathering import gather
from ntk_conditioning.kernels.layers import RULES
from ntk_conditioning.kernels.rows import tensors
from ntk_conditioning.kernels.subjects import (
    MixedSamplesError,
    ModuleError,
    OutputsError,
    Subject,
    TrainingModeError,
    as_matrix,
    first_outputs,
)
from ntk_conditioning.kernels.traces import Axis, Call, CallsChangedError, Trace, Use, Watching

#: Samples of which the second of the probe is chosen.
MOST_COMPARED = 256
REMEDY = "replace it by a layer that treats each sample alone"
DRAWS = (
    "the module draws random numbers, as stochastic depth does while training; call model.eval() "
    "or draw them before"
)

#: A function that was called, and the first tensor that it returned.
Heard = tuple[Any, Tensor | None]

_log = logging.getLogger(__name__)

#: How far gradients may be apart that are computed in two ways, relative to the largest entry:
#: much more than rounding and much less than a mistake.
TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-2}


@dataclass(frozen=True, eq=False)
class Plan:
    """What a probe found.

    ``calls`` in their order, the ``uses`` of each watched parameter, the ``reasons`` why others
    are not watched, the bytes of all results of a sample, the number and type of outputs and the
    lowest ``precision`` on the way to them; and whether `torch.func` is right for what is not
    watched.
    """

    calls: Sequence[Call]
    uses: Mapping[str, Sequence[Use]]
    reasons: Mapping[str, str]
    sample_bytes: int
    outputs: int
    dtype: torch.dtype
    precision: torch.dtype
    vectorised: bool = True

    @property
    def eps(self) -> float:
        """The rounding of the lowest precision, relative."""
        return torch.finfo(self.precision).eps

    def unwatched(self, names: Iterable[str], reason: str) -> Plan:
        """Return the plan by which also the parameters ``names`` are not watched, and say so."""
        reasons = {name: reason for name in self.uses if name in {*names}}
        _tell(reasons)
        uses = {name: uses for name, uses in self.uses.items() if name not in reasons}
        return replace(self, uses=uses, reasons={**self.reasons, **reasons})


class _Listening(Watching):
    """Keeps each function that is called, with the first tensor that it returns.

    ``states`` are those of the module's own random generators when they are used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Heard] = []
        self.states: list[bytes] = []

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(func, "__name__", "")
        if "dropout" in name:
            _check_dropout(name, args, kwargs)
        if isinstance(generator := kwargs.get("generator"), torch.Generator):
            self.states.append(generator.get_state().numpy().tobytes())
        made = func(*args, **kwargs)
        self.calls.append((func, next(tensors(made), None)))
        return made


def _check_dropout(name: str, args: Any, kwargs: Any) -> None:
    given = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
    if given.get("training", True) and given.get("p", 0.5):
        raise TrainingModeError(f"the module calls {name} while not in evaluation; pass training=")


def pair_of(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the first finite sample and, of some others, the one that differs most from it."""
    n = min(len(inputs[0]), MOST_COMPARED)
    finite = torch.ones(n, dtype=torch.bool)
    for t in inputs:
        finite &= t[:n].reshape(n, -1).isfinite().all(dim=1).cpu()
    first = int(finite.long().argmax())
    differing = torch.zeros(n, dtype=torch.long)
    for t in inputs:
        differing += (t[:n] != t[first]).reshape(n, -1).sum(dim=1).cpu()
    second = int(torch.where(finite, differing, -1).argmax())
    return [t[[first, second]] for t in inputs]


def probe(subject: Subject, pair: Sequence[Tensor]) -> Plan:
    """Return how the module treats samples like these two.

    Raises `MixedSamplesError`, `InputsError`, `OutputsError` and `TrainingModeError`.
    """
    other = [torch.cat([_instead(t[:1], t[1:]), t[1:]]) for t in pair]
    mirrored = [torch.cat([t[:1], _instead(t[1:], t[:1])]) for t in pair]
    three = [torch.cat([t, t[1:]]) for t in other]
    outputs = first_outputs(subject, pair)  # which fills the caches that the module may have
    drawn = random_state(subject.device)
    heard = [_listen(subject, inputs) for inputs in (pair, other, three)]
    runs, made = [listening.calls for listening, _ in heard], [found for _, found in heard]
    require_nothing_drawn(drawn, subject.device)
    if heard[0][0].states != heard[1][0].states:
        raise TrainingModeError(DRAWS)
    if not _is_same(outputs, made[0]):
        raise TrainingModeError("the module gives other outputs each time; call model.eval()")
    if not outputs.requires_grad:
        raise OutputsError("the outputs have no gradients: do not detach what they are made of")
    size, precision = _bytes(runs[0]), _precision(runs[0], outputs)
    plan = Plan((), {}, {}, size, outputs.shape[1], outputs.dtype, precision)
    for kept, changed, found in (1, other, made[1]), (0, mirrored, subject.outputs(mirrored)):
        if not _is_same(outputs[kept], found[kept], outputs, found, eps=plan.eps):
            raise MixedSamplesError(
                f"{_mixing_module(subject, pair, changed, kept)} mixes samples: a change of one "
                f"changes what it gives for another; {REMEDY}"
            )
    turned = subject.outputs([t.flip(0) for t in pair]).flip(0)
    if not _is_same(outputs, turned, eps=plan.eps):
        raise MixedSamplesError(
            "the outputs of a sample depend on its place in the batch, as with a positional "
            "encoding of samples instead of positions; " + REMEDY
        )
    require_alone(made[1], made[2][:2], plan)
    try:
        calls = [_call(*results) for results in zip_longest(*runs, fillvalue=(None, None))]
        uses, reasons = _verified(subject, pair, outputs, replace(plan, calls=calls))
    except CallsChangedError as change:
        return without_rules(plan, subject, str(change))
    _tell(reasons)
    return replace(plan, calls=calls, uses=uses, reasons=reasons)


def random_state(device: torch.device) -> list[Any]:
    """Return the states of the generators that a module may draw from."""
    of_torch = [torch.get_rng_state().numpy().tobytes()]
    if device.type == "cuda":
        of_torch.append(torch.cuda.get_rng_state(device).numpy().tobytes())
    of_numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 what modules use
    return [*of_torch, random.getstate(), of_numpy["key"].tobytes(), of_numpy["pos"]]


def require_nothing_drawn(before: list[Any], device: torch.device) -> None:
    """Raise `TrainingModeError` if a generator has advanced: what is rare shows in no output."""
    if random_state(device) != before:
        raise TrainingModeError(DRAWS)


def _precision(run: Sequence[Heard], outputs: Tensor) -> torch.dtype:
    """Return the lowest precision of what depends on parameters.

    Raises `ModuleError` if it is below single.
    """
    types = {t.dtype for _, t in run if t is not None and t.requires_grad} | {outputs.dtype}
    lowest = max(types, key=lambda dtype: torch.finfo(dtype).eps)
    if torch.finfo(lowest).eps > torch.finfo(torch.float32).eps:
        raise ModuleError(
            f"the module computes in {lowest}, too coarse for a kernel; call model.float() or "
            "model.double(), and leave autocast"
        )
    return lowest


def require_alone(few: Tensor, many: Tensor, plan: Plan) -> None:
    """Raise `MixedSamplesError` unless samples have the same outputs in another batch.

    Products of other sizes round otherwise, which deep networks stretch.
    """
    if not _is_same(few, many, many, tolerance=plan.eps ** (1 / 3)):
        raise MixedSamplesError(
            "samples have other outputs in another batch: the module mixes them, or has so many "
            "layers that rounding decides; replace what mixes, or give float64"
        )


def without_rules(plan: Plan, subject: Subject, reason: str) -> Plan:
    """Return the plan by which no parameter is watched, and say so."""
    reasons = dict.fromkeys(subject.parameters, reason)
    _tell(reasons)
    return replace(plan, calls=(), uses={}, reasons=reasons)


def _instead(t: Tensor, of_another: Tensor) -> Tensor:
    """Return a sample that differs from ``t`` if it can, and is as valid an input."""
    if not t.is_floating_point():
        return t.flip(-1) if t.ndim > 1 and torch.equal(t, of_another) else of_another
    waves = torch.sin(torch.arange(t.numel(), device=t.device) + 1.0).view(t.shape)
    return 0.5 * t + (waves * (0.1 + t.abs().mean())).to(t.dtype)


def _listen(subject: Subject, inputs: Sequence[Tensor]) -> tuple[_Listening, Tensor]:
    copies, listening = [t.clone() for t in inputs], _Listening()
    with torch.enable_grad():
        with listening:
            made = subject.run(copies)
        return listening, as_matrix(made, len(inputs[0]))


def _bytes(run: Sequence[Heard]) -> int:
    storages = {_storage(t): t.nbytes for _, t in run if t is not None}
    return 1 + sum(storages.values()) // 2


def _storage(t: Tensor) -> int:
    try:
        return t.data_ptr()
    except RuntimeError:  # of what torch.func makes of a tensor
        return id(t)


def _call(*results: Heard) -> Call:
    """Return a call from what it returned for two, for two other and for three samples."""
    functions, made = zip(*results, strict=True)
    if len(set(functions)) > 1:
        raise CallsChangedError
    pair, other, three = made
    if pair is None or three is None:
        return Call(functions[0], None)
    if pair.shape == three.shape:
        return Call(functions[0], None, tuple(pair.shape))
    if pair.ndim != three.ndim:
        raise CallsChangedError
    sizes = zip(pair.shape, three.shape, strict=True)
    changed = [dim for dim, (a, b) in enumerate(sizes) if a != b]
    if len(changed) != 1 or 3 * pair.shape[changed[0]] != 2 * three.shape[changed[0]]:
        raise CallsChangedError
    dim = changed[0]
    rest = pair.shape[dim] // 2
    orders = [Axis(dim, b, rest // b) for b in range(1, rest + 1) if rest % b == 0]
    fitting = [a for a in orders if _only_first(a, pair, other, torch.equal)] or [
        a for a in orders if _only_first(a, pair, other, _is_same)
    ]
    axis = (fitting or orders)[0]
    return Call(functions[0], axis, tuple(pair.shape), len(orders) == 1 or len(fitting) == 1)


def _only_first(
    axis: Axis, pair: Tensor, other: Tensor, same: Callable[[Tensor, Tensor], bool]
) -> bool:
    """Return whether only the first sample differs if the samples lie so."""
    return same(axis.by_sample(pair)[1], axis.by_sample(other)[1])


def _is_same(
    a: Tensor,
    b: Tensor,
    *among: Tensor,
    eps: float | None = None,
    tolerance: float | None = None,
) -> bool:
    """Return whether two results differ by rounding ``eps``, in units of the largest of all.

    A product with other rows may sum in another order, and its terms may cancel out.
    """
    if not a.is_floating_point() or not a.numel():
        return torch.equal(a, b)
    eps = torch.finfo(a.dtype).eps if eps is None else eps
    tolerance = 1e4 * eps if tolerance is None else tolerance
    sizes = [float(t.detach().abs().nan_to_num(0, 0, 0).max()) for t in (a, b, *among)]
    return torch.allclose(a, b, rtol=0, atol=tolerance * max(sizes), equal_nan=True)


def _mixing_module(
    subject: Subject, pair: Sequence[Tensor], other: Sequence[Tensor], kept: int
) -> str:
    """Return the first module whose result for the sample ``kept`` depends on the other one."""
    found: list[list[tuple[str, Tensor]]] = [[], []]
    for results, inputs in zip(found, (pair, other), strict=True):

        def keep(name: str, results: list[tuple[str, Tensor]] = results) -> Callable[..., None]:
            def hook(module: nn.Module, args: Any, made: Any) -> None:
                results.extend((name, t.detach().clone()) for t in tensors(made))

            return hook

        modules = subject.model.named_modules()
        handles = [module.register_forward_hook(keep(name)) for name, module in modules]
        try:
            subject.outputs(inputs)
        finally:
            for handle in handles:
                handle.remove()
    for (name, a), (_, b) in zip(*found, strict=True):
        if a.ndim and a.shape == b.shape and len(a) == 2 and not _is_same(a[kept], b[kept], a, b):
            return name or f"the {type(subject.model).__name__}"
    return f"the {type(subject.model).__name__}"


def _verified(
    subject: Subject, pair: Sequence[Tensor], outputs: Tensor, plan: Plan
) -> tuple[dict[str, Sequence[Use]], dict[str, str]]:
    """Return the uses of parameters whose gradients agree, and why others are not watched."""
    # A sum of probabilities, say, would have no gradient.
    weights = torch.linspace(1, 2, outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
    total = outputs @ weights
    names, parameters = [*subject.parameters], [*subject.parameters.values()]
    plain = [
        torch.autograd.grad(
            value, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for value in total
    ]
    copies = [t.clone() for t in pair]
    trace = Trace(subject.parameters, plan.calls, RULES, copies)
    with trace:
        made = subject.run(copies)
    trace.finish()
    watched = as_matrix(made, len(copies[0]))
    trace.backward((watched @ weights).sum(), again=False)
    uses: dict[str, list[Use]] = {name: [] for name in names}
    for record in trace.records:
        for use in record.uses:
            for root in use.weight.roots:
                uses[root].append(use)
    gathered = gather(trace, subject.parameters)
    reasons = dict(trace.refused)
    tolerance = TOLERANCE[plan.precision]
    largest = max(float(g.abs().max()) for gradients in plain for g in gradients)
    rounding = 1e3 * plan.eps * largest  # of gradients that cancel out
    for number, name in enumerate(names):
        expected = torch.stack([gradients[number].flatten() for gradients in plain])
        found = gathered.get(name, torch.zeros_like(expected))
        if (found - expected).abs().max() > rounding + tolerance * expected.abs().max():
            reasons.setdefault(name, "its uses are not all among the calls of torch's functions")
    return {name: uses[name] for name in names if name not in reasons}, reasons


def _tell(reasons: Mapping[str, str]) -> None:
    for reason in dict.fromkeys(reasons.values()):
        names = [name for name, other in reasons.items() if other == reason]
        _log.warning("gradients by %s are slow, by torch.func: %s", ", ".join(names), reason)

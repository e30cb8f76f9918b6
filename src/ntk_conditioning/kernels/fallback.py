"""Exact gradients of each sample by automatic differentiation, for weights that no rule covers."""

import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from ntk_conditioning.kernels.subjects import Subject, as_matrix


class Differentiation:
    """Gradients (n, k, p) of the combinations ``cotangents`` (k, c) of outputs, by parameter."""

    def __init__(
        self, subject: Subject, names: Sequence[str], cotangents: Tensor, *, vectorised: bool
    ) -> None:
        self._subject, self._cotangents = subject, cotangents
        self._parameters = {name: subject.parameters[name] for name in names}
        self._is_vectorised = vectorised

    def gradients(self, inputs: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return the gradients at every sample; those of all samples at once where torch can."""
        if self._is_vectorised:
            try:
                return self._at_once(inputs)
            except (RuntimeError, ValueError):  # an operation that vmap does not know
                self._is_vectorised = False
        samples = [self._of_sample([t[i : i + 1] for t in inputs]) for i in range(len(inputs[0]))]
        return {name: torch.stack([s[name] for s in samples]) for name in self._parameters}

    def _at_once(self, inputs: Sequence[Tensor]) -> Mapping[str, Tensor]:
        def combined(parameters: dict[str, Tensor], *sample: Tensor) -> Tensor:
            made = functional_call(
                self._subject.model, parameters, tuple(t.unsqueeze(0) for t in sample)
            )
            made = made[0] if isinstance(made, tuple) else made
            return self._cotangents @ as_matrix(made, 1).squeeze(0)

        detached = {name: p.detach() for name, p in self._parameters.items()}
        each = vmap(jacrev(combined), in_dims=(None, *[0] * len(inputs)))
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that an operation is slow
            jacobians = each(detached, *inputs)
        return {name: j.detach().flatten(2) for name, j in jacobians.items()}

    def _of_sample(self, sample: Sequence[Tensor]) -> Mapping[str, Tensor]:
        with torch.enable_grad():
            values = (self._cotangents @ self._subject.outputs(sample).squeeze(0)).unbind()
        rows = [
            torch.autograd.grad(
                value,
                [*self._parameters.values()],
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            for value in values
        ]
        columns = zip(self._parameters, zip(*rows, strict=True), strict=True)
        return {name: torch.stack([g.flatten() for g in column]) for name, column in columns}

"""Backward passes of planned scripts. Their gradients have no values."""

from __future__ import annotations

import functools
from typing import Any

import metatensor as mt
from metatensor._core.nested import tensors_in
from metatensor.cli.planned.values import Tally
from metatensor.optim import SparseAdam
from metatensor.utils.weak import WeakIdKeyDictionary

__all__ = ["Gradients"]


class Gradients:
    """The gradients of a planned script.

    A backward pass that raises NotImplementedError is skipped. After a skipped pass, every leaf that requires grad has a
    gradient on meta until its gradient is set to None. All leaves are included, because it is not known on which of them
    the differentiated tensor depends. Such a gradient is created when it is first read.
    """

    def __init__(self) -> None:
        self.passes = Tally()
        self._count = 0
        self._cleared: Any = WeakIdKeyDictionary()  # tensor -> number of passes when its gradient was set to None

    def start(self) -> None:
        """Replace backward passes and `Tensor.grad`. Call this after `torch_api.install`."""
        self._replace_passes()
        self._replace_grad()
        self._replace_unscaling()
        setattr(SparseAdam, "_step_one", _create_state)  # noqa: B010

    def _left_out(self) -> None:
        self.passes.count()
        self._count += 1

    def _replace_passes(self) -> None:
        """Skip backward passes that raise NotImplementedError."""
        original, gradients, left_out = mt.Tensor.backward, mt.autograd.grad, self._left_out

        @functools.wraps(original)
        def backward(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(self, *args, **kwargs)
            except NotImplementedError:
                left_out()

        @functools.wraps(gradients)
        def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return gradients(outputs, inputs, *args, **kwargs)
            except NotImplementedError:
                self.passes.count()  # these gradients are returned, not accumulated
                return tuple(mt.empty_like(tensor, requires_grad=kwargs.get("create_graph", False)) for tensor in tensors_in((inputs,)))

        setattr(mt.Tensor, "backward", backward)  # noqa: B010
        setattr(mt.autograd, "grad", grad)  # noqa: B010

    def _replace_grad(self) -> None:
        stored: Any = mt.Tensor.__dict__["grad"]

        def read(tensor: Any) -> Any:
            found = stored.__get__(tensor)
            pending = self._count > self._cleared.get(tensor, 0)
            if found is None and pending and tensor.requires_grad and (tensor.is_leaf or tensor.retains_grad):
                with mt.no_grad():
                    if not tensor.is_meta:
                        tensor.data = mt.empty_like(tensor.data, device="meta")
                    found = mt.empty_like(tensor.data)
                stored.__set__(tensor, found)
            return found

        def write(tensor: Any, value: Any) -> None:
            stored.__set__(tensor, value)
            if value is None and self._count:
                self._cleared[tensor] = self._count

        setattr(mt.Tensor, "grad", property(read, write, lambda tensor: write(tensor, None), stored.__doc__))  # noqa: B010

    def _replace_unscaling(self) -> None:
        from metatensor.torch_api.torch.amp.grad_scaler import GradScaler

        unscale = GradScaler._unscale_grads_

        @functools.wraps(unscale)
        def unscaled(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            found = unscale(scaler, optimizer, *args, **kwargs)
            return found or ({mt.device("meta"): mt.zeros((), device="meta")} if self._count else found)

        setattr(GradScaler, "_unscale_grads_", unscaled)  # noqa: B010


def _create_state(self: SparseAdam, p: Any, grad: Any, group: dict[str, Any]) -> None:
    """Create a parameter's state without an update. `SparseAdam` cannot apply the dense gradients of a planned run."""
    if p not in self.state:
        self.state[p] = self.begin(p, group)

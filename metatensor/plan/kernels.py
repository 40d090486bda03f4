"""Kernels of training that keep less for the backward pass than the operators of a model's code: a search takes them as an option.

What such a kernel saves is derived from the run of the model's own code on meta: a tensor that it computes again is not kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.modes import DispatchMode
from metatensor.analysis.calls import CallRecorder
from metatensor.autograd.graph import saved_tensors_hooks
from metatensor.distributed.tensor import DTensor, Replicate, Shard
from metatensor.distributed.tensor._dtensor import wrap

__all__ = ["KERNELS", "saving_less"]

KERNELS = ("activation", "gather")
"""The kernels that `search` knows. ``"activation"``: the results of activation functions are computed again from their arguments, as in
one kernel with the product that follows (SwiGLU, GeGLU). ``"gather"``: tensors that were gathered over tensor-parallel ranks are gathered
again, as in linear layers with sequence parallelism (arXiv:2205.05198)."""

ACTIVATIONS = frozenset(f"nn.functional.{name}" for name in ("silu", "gelu", "mish", "hardswish", "softplus", "logsigmoid"))
"""Activation functions whose gradients need their arguments, so that these are kept anyway."""


@contextmanager
def saving_less(kernels: tuple[str, ...], recorder: CallRecorder) -> Iterator[None]:
    """Let what runs inside the block save what these kernels save.

    Nothing is added to the calls of ``recorder``: a kernel does what it computes again while it reads its arguments. Collectives are added.
    """
    if not kernels:
        yield
        return
    saving = _Saving(kernels, recorder)
    with ExitStack() as stack:
        if "activation" in kernels:
            stack.enter_context(saving)
        stack.enter_context(saved_tensors_hooks(saving.pack, saving.unpack))
        yield


class _Again:
    """Stands for the result of an activation function."""

    def __init__(self, op: Any, args: tuple, kwargs: dict[str, Any], spec: Any) -> None:
        self.op, self.args, self.kwargs, self.spec = op, args, kwargs, spec

    def tensor(self) -> Any:
        found = self.op(*self.args, **self.kwargs)
        return found if self.spec is None else wrap(found, self.spec)


class _Gathered:
    """Stands for a tensor of which this rank keeps its part. While several operators need the whole one, it is gathered once."""

    def __init__(self, whole: Any, parted: tuple[Any, ...]) -> None:
        part = DTensor.redistribute(whole, placements=parted)
        self.part, self.placements, self.waiting = wrap(part._local_tensor.clone(), part._spec), whole.placements, 0
        self.whole: Any = None

    def tensor(self) -> Any:
        found = self.whole = self.whole if self.whole is not None else DTensor.redistribute(self.part, placements=self.placements)
        self.waiting -= 1
        if not self.waiting:
            self.whole = None
        return found


class _Saving(DispatchMode):
    """Replaces tensors that are saved by what they are computed from."""

    def __init__(self, kernels: tuple[str, ...], recorder: CallRecorder) -> None:
        self.kernels, self.recorder = kernels, recorder
        self._made: dict[int, tuple[Any, Any]] = {}  # by the identity of a tensor, with a weak reference to it

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        if op.name in ACTIVATIONS and out is not args[0]:
            self._note(out, (op, tuple(a.detach() if isinstance(a, mt.Tensor) else a for a in args), kwargs))
        return out

    def _note(self, t: Any, how: Any) -> None:
        key, made = id(t), self._made  # an entry lives as long as the tensor, so that arguments do not live longer than without it
        made[key] = weakref.ref(t, lambda _: made.pop(key, None)), how

    def _known(self, t: Any) -> Any:
        reference, how = self._made.get(id(t), (None, None))
        return how if reference is not None and reference() is t else None

    def pack(self, t: Any) -> Any:
        """Return what is kept for a tensor that is saved."""
        local, before = t._local_tensor if isinstance(t, DTensor) else t, len(self.recorder.calls)
        how = self._known(local)
        if isinstance(how, tuple):
            op, args, kwargs = how
            return _Again(op, args, kwargs, t._spec if isinstance(t, DTensor) else None)
        if how is None and "gather" in self.kernels and isinstance(t, DTensor) and all(p.is_replicate() for p in t.placements):
            parted = getattr(t.grad_fn, "placements", None) if type(t.grad_fn).__name__ == "_RedistributeBackward" else None
            if parted is not None and any(isinstance(p, Shard) for p in parted) and all(isinstance(p, (Shard, Replicate)) for p in parted):
                with mt.no_grad():
                    how = _Gathered(t, parted)
                self._note(local, how)
                del self.recorder.calls[before:]
        if isinstance(how, _Gathered):
            how.waiting += 1
            return how
        return t

    def unpack(self, kept: Any) -> Any:
        """Return the tensor that was saved."""
        if not isinstance(kept, (_Again, _Gathered)):
            return kept
        before = len(self.recorder.calls)
        with mt.no_grad():
            found = kept.tensor()
        del self.recorder.calls[before:]
        return found

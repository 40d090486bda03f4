"""Selective checkpointing: a policy decides which results are kept and which are recomputed."""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors
from metatensor.overloads import OpOverload
from metatensor.utils._python_dispatch import TorchDispatchMode

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """The decisions that a selective checkpointing policy can make about an operator's results."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE}
_OFFLOADED = {CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD}
_RECOMPUTED: Any = object()


class SelectiveCheckpointContext:
    """The first argument of a selective checkpointing policy. ``is_recompute`` is True during a recomputation."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Kept:
    """The results of one call, detached, with their version counters."""

    def __init__(self, op: Any, result: Any, offload: bool) -> None:
        self.versions: list[tuple[Any, int]] = []
        self.offload = offload
        self.result = map_tensors(self._keep, result)
        # A random operator that is not run again must still advance the generator.
        self.random = mt.default_generator.get_state() if _is_random(op) else None

    def _keep(self, t: Any) -> Any:
        t = t.detach()
        if self.offload and t.device.type not in ("cpu", "meta"):
            return _Offloaded(t)
        self.versions.append((t, t._version))
        return t

    def restored(self, op: Any, allow_mutation: bool) -> Any:
        """Return the results. Raise RuntimeError if one was changed in place and `allow_mutation` is False."""
        if not allow_mutation and any(t._version != version for t, version in self.versions):
            raise RuntimeError(
                f"create_selective_checkpoint_contexts: a result of {op} that was kept has been changed in place; let the policy "
                "recompute it, or pass allow_cache_entry_mutation=True"
            )
        if self.random is not None:
            mt.default_generator.set_state(self.random)
        if not self.offload:
            return self.result
        return _back(self.result)


class _Offloaded:
    def __init__(self, t: Any) -> None:
        self.device, self.values = t.device, t.to("cpu")


def _back(value: Any) -> Any:
    if isinstance(value, _Offloaded):
        return value.values.to(value.device)
    return type(value)(_back(part) for part in value) if isinstance(value, (list, tuple)) else value


def _is_random(op: Any) -> bool:
    return any("seeded" in str(tag) for tag in op.tags)


def _always_runs(func: Any) -> bool:
    """Return True for operators that run in every recomputation.

    These are views and operators that return uninitialized memory, which cost nothing, and operators that write to
    arguments.
    """
    return func.is_view or func._schema.is_mutable or "empty" in func.op.name


class _Forward(TorchDispatchMode):
    """Mode of the first call: asks the policy, and keeps results."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, deque]) -> None:
        super().__init__()
        self.policy, self.kept = policy, kept

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _always_runs(func):
            return result
        decided = self.policy(SelectiveCheckpointContext(is_recompute=False), func, *args, **(kwargs or {}))
        if isinstance(decided, bool):
            decided = CheckpointPolicy.MUST_SAVE if decided else CheckpointPolicy.PREFER_RECOMPUTE
        keeps = decided in _SAVED or decided in _OFFLOADED
        self.kept[func].append(_Kept(func, result, decided in _OFFLOADED) if keeps else _RECOMPUTED)
        return result


class _Again(TorchDispatchMode):
    """Mode of the recomputation: returns the results that were kept."""

    def __init__(self, kept: dict[Any, deque], allow_mutation: bool) -> None:
        super().__init__()
        self.kept, self.allow_mutation = kept, allow_mutation

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        calls = self.kept.get(func)
        kept: Any = calls.popleft() if calls and not _always_runs(func) else _RECOMPUTED
        if kept is _RECOMPUTED:
            return func(*args, **(kwargs or {}))
        return kept.restored(func, self.allow_mutation)


def _listed(ops: list[Any]) -> Callable[..., CheckpointPolicy]:
    for op in ops:
        if not isinstance(op, OpOverload):
            raise ValueError(
                f"create_selective_checkpoint_contexts: the list must hold overloads such as torch.ops.aten.mm.default, got {op!r}"
            )
    chosen = set(ops)

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:
    """Return the context managers for a checkpoint that keeps some results, for `context_fn` of `checkpoint`.

    Parameters
    ----------
    policy_fn_or_list : callable or list
        Either a function ``policy(context, op, *args, **kwargs)``, where ``op`` is an overload such as
        ``torch.ops.aten.mm.default``, or a list of the overloads whose results are kept. The function returns a
        `CheckpointPolicy`, or a bool that states whether to keep the results. It is called while the checkpointed
        function runs for the first time, for all operators except views and those that write to an argument.
    allow_cache_entry_mutation : bool
        Whether results that were kept may be changed in place. Default False.

    Raises
    ------
    TypeError
        If `policy_fn_or_list` is neither a function nor a list.
    ValueError
        If the list holds anything but overloads.

    Examples
    --------
    >>> import metatensor as mt
    >>> from functools import partial
    >>> from metatensor.overloads import packet
    >>> from metatensor.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = partial(create_selective_checkpoint_contexts, [packet("aten", "mm").default])
    >>> x = mt.ones(2, 2, device="cpu", requires_grad=True)
    >>> checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad.shape
    metatensor.Size([2, 2])
    """
    if isinstance(policy_fn_or_list, list):
        policy = _listed(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list of operators, "
                        f"not {type(policy_fn_or_list).__name__}")  # fmt: skip
    kept: dict[Any, deque] = defaultdict(deque)
    return _Forward(policy, kept), _Again(kept, allow_cache_entry_mutation)

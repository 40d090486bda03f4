"""Batched tensors. `vmap` passes them to a function to call it once for a whole batch.

A `Batched` tensor has the shape, dtype and device of one member. Its `value` holds all members, along an additional
first dimension. Operators with a rule in `metatensor.func._rules` compute with `value`. Any other operator is called
for one member after another. On a device without data, it is called for only one member, because all members have the
same metadata.
"""

from __future__ import annotations

import threading
import warnings
from functools import lru_cache
from typing import Any

import metatensor as mt
from metatensor._core import duals
from metatensor._core.dispatch import bound_arguments, run_body
from metatensor._core.gradients import parts_of
from metatensor._core.modes import DispatchMode, current_modes
from metatensor._core.tensor import Tensor
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.deferred import has_values
from metatensor.func import _tree
from metatensor.rules.decompositions import decompositions

__all__ = [
    "Batched", "Level", "NoBatch", "by_body", "by_parts", "by_rule", "current_level", "current_levels", "is_batched_at", "is_random",
    "peel", "wrap", "writes",
]  # fmt: skip

VIEW_FLAG = 4  # operator flags, as in _core/op.pxd
COMPOSITE_FLAG = 8
ELEMENTWISE_FLAG = 32
RANDOM_FLAG = 64

# The arguments that determine whether an operator is random: dropout probabilities and training switches.
_DROPOUT = ("p", "dropout", "dropout_p")
_SWITCH = ("train", "training")

# These operators are not element-wise. They have the flag ELEMENTWISE only because their result may overwrite an
# argument.
_MIXING = frozenset((
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "cumprod", "cumsum", "index_add", "index_copy", "index_fill", "index_reduce",
    "masked_scatter", "put", "renorm", "scatter", "scatter_add", "scatter_reduce",
))  # fmt: skip

# These operators return Python values, which may differ between members.
_ANSWERS = frozenset(("item", "tolist", "equal", "allclose", "is_nonzero"))
# The results of these operators depend only on metadata, which all members share.
_COMMON = frozenset((
    "is_contiguous", "numel", "is_complex", "is_floating_point", "is_signed", "is_conj", "is_neg", "is_inference", "get_device",
    "is_same_size", "dim_order", "result_type",
))  # fmt: skip


class _Threads(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_threads = _Threads()


def current_level() -> Level | None:
    """Return the innermost running `vmap`, or None."""
    return _threads.levels[-1] if _threads.levels else None


@lru_cache(None)
def writes(op: Any) -> bool:
    """Return whether an operator writes to its first argument in every call."""
    return any("(a!)" in schema.partition(",")[0] for schema in op.schemas)


def current_levels() -> list[Level]:
    """Return the running `vmap`s, the outermost first."""
    return list(_threads.levels)


def is_random(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether this call of an operator draws random numbers."""
    if not op.flags & RANDOM_FLAG and op.functional.name not in ("rrelu", "nn.functional.rrelu"):
        return False
    found = bound_arguments(op, args, kwargs)
    given = kwargs if found is None else found[1]
    if any(name in given and not given[name] and given[name] is not None for name in _SWITCH):
        return False
    probabilities = [given[name] for name in _DROPOUT if name in given]
    if op.functional.name.endswith("scaled_dot_product_attention") or op.name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return any(probabilities)
    if op.functional.name.endswith("dropout") and op.name != "native_dropout" and any(p == 1 for p in probabilities):
        return False  # all elements are dropped
    return all(isinstance(p, Tensor) or p or p is None for p in probabilities)


class Level(DispatchMode):
    """One running `vmap`: its batch size, and how it treats random operators."""

    def __init__(self, size: int, randomness: str) -> None:
        self.size = size
        self.randomness = randomness
        self.inside_member = 0
        self.for_tangents = False  # only tangents and gradients are batched

    def __enter__(self) -> Level:
        super().__enter__()
        self.depth = len(_threads.levels)
        _threads.levels.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _threads.levels.pop()
        super().__exit__(*error)
        if isinstance(error[1], NoBatch):  # NoBatch is internal, so users get a RuntimeError
            raise RuntimeError(str(error[1])).with_traceback(error[2]) from None

    def dispatch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator without batched arguments.

        Depending on `randomness`, a random operator raises, draws once for all members, or draws for each member.
        """
        if self.inside_member or not is_random(op, args, kwargs):
            return op(*args, **kwargs)
        self.refuse_random(op)
        if self.randomness == "same":
            return op(*args, **kwargs)
        if op.variant:
            raise RuntimeError(
                f"vmap: {op.name} would write different numbers for each member of the batch to a tensor that they "
                "share; use randomness='same', or a tensor that is mapped over"
            )
        from metatensor.func._random import drawn_by_all

        result = drawn_by_all(op, self, args, kwargs)
        return wrap(mt.stack([op(*args, **kwargs) for _ in range(self.size)]), self) if result is NotImplemented else result

    def refuse_random(self, op: Any) -> None:
        """Raise RuntimeError if `randomness` is "error"."""
        if self.randomness == "error":
            raise NoBatch(
                f"vmap: the function draws random numbers ({op.name}); pass randomness='different' or 'same'"
            )


def wrap(value: Any, level: Level) -> Any:
    """Return a `Batched` tensor whose members are the slices of `value` along its first dimension.

    If `value` is already batched by a more deeply nested `vmap`, the result is a batched tensor of that `vmap`, whose
    `value` is batched at `level`.
    """
    if isinstance(value, Batched) and value.level.depth > level.depth:
        return wrap(wrap(value.value.movedim(1, 0), level), value.level)
    with DisableTorchFunctionSubclass():
        member = value.detach()
        member = member.select(0, 0) if value.shape[0] else member.new_empty(value.shape[1:])
    made = Tensor._make_subclass(Batched, member, value.requires_grad)
    made.value = value
    made.level = level
    return made


def peel(x: Any, level: Level) -> Any:
    """Return `x` with the members of `level` along a new first dimension.

    If `x` is not batched at `level`, it is expanded without a copy.
    """
    if isinstance(x, Batched):
        if x.level is level:
            return x.value
        return wrap(peel(x.value, level).movedim(0, 1), x.level)
    tangents = duals.tangents(x) if duals.in_use() else {}
    if any(is_batched_at(t, level) for t in tangents.values()):
        primal = duals.primal_of(x, 0)
        whole = primal.unsqueeze(0).expand(level.size, *x.shape)
        return duals.put_tangents(whole, {number: peel(t, level) for number, t in tangents.items()})
    return x.unsqueeze(0).expand(level.size, *x.shape)


def is_batched_at(x: Any, level: Level) -> bool:
    """Return whether a tensor, or one of its tangents, is batched at a level."""
    while isinstance(x, Batched):
        if x.level is level:
            return True
        x = x.value
    return duals.in_use() and any(is_batched_at(t, level) for t in duals.tangents(x).values())


def unwrap_all(tree: Any, level: Level, at: int | None) -> Any:
    """Replace each batched tensor of a level in nested containers by its member `at`, or by all members if `at` is
    None.
    """

    def one(x: Any) -> Any:
        if isinstance(x, Batched) and x.level is level:
            return x.value if at is None else x.value.select(0, at)
        return x

    return _tree.tree_map(one, tree)


class Batched(Tensor):
    """A tensor with the metadata of one member of a batch.

    Its attribute `value` holds all members along an additional first dimension, and `level` is the `vmap` to which it
    belongs.
    """

    value: Any
    level: Level
    _picks_by_operator = True
    _overrides_operators_only = True

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        batches = [x for x in _tree.flatten([args, kwargs]) if isinstance(x, Batched)]
        level = max((x.level for x in batches), key=lambda level: level.depth)
        if duals.in_use():
            # A tensor whose tangents are batched at this level counts as batched itself.
            args, kwargs = _tree.tree_map(
                lambda x: wrap(peel(x, level), level)
                if isinstance(x, Tensor) and not (isinstance(x, Batched) and x.level is level) and is_batched_at(x, level) else x,
                [args, kwargs],
            )  # fmt: skip
        name = func.functional.name
        if name in _ANSWERS:
            raise NoBatch(
                f"vmap: {name}, which bool() and int() may call, may give a different result for each member of the batch, "
                "so code cannot depend on it; use metatensor.where instead of an if statement"
            )
        if name in _COMMON:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        mutated = args[0] if func.variant == 1 or writes(func) else kwargs.get("out")
        if mutated is not None and not (isinstance(mutated, Batched) and mutated.level is level):
            raise SharedWrite(
                f"vmap: {func.name} would write different values for each member of the batch to a tensor that they "
                "share; create that tensor from one that is mapped over, for example with new_zeros()"
            )
        random = is_random(func, args, kwargs)
        if random:
            level.refuse_random(func)
        if "::" in func.name:
            from metatensor.func._functions import by_custom_rule

            result = by_custom_rule(func, level, args, kwargs)
            if result is not NotImplemented:
                return result
        if random:
            from metatensor.func._random import drawn

            result = drawn(func, level, args, kwargs, mutated)
            if result is not NotImplemented:
                return result
        else:
            for way in _WAYS:
                try:
                    result = way(func, level, args, kwargs, mutated)
                except SharedWrite:  # the operator itself created the shared tensor
                    result = NotImplemented
                except NoBatch:
                    raise
                except (RuntimeError, IndexError, TypeError, ValueError):
                    result = NotImplemented  # calling the operator for each member raises a better message
                if result is not NotImplemented:
                    return result if mutated is None else _changed(mutated)
        return _by_member(func, level, args, kwargs, mutated, random)

    def numpy(self, *, force: bool = False) -> Any:
        """Raise RuntimeError, because the values would be those of all members."""
        raise RuntimeError("vmap: the values of a tensor that is mapped over cannot be read")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy()

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return f"Batched(level={self.level.depth}, value={self.value!r})"


def _changed(mutated: Any) -> Any:
    """Return `mutated` after a write. Set `requires_grad` of batched tensors whose members now require gradients."""
    for x in _tree.flatten(mutated):
        if isinstance(x, Batched) and x.value.requires_grad and not x.requires_grad:
            with DisableTorchFunctionSubclass():
                x.requires_grad = True
    return mutated


class NoBatch(RuntimeError):
    """Raised if an operator cannot run for a batch, because what it does depends on the values of a member."""


class SharedWrite(NoBatch):
    """Raised if an operator would write different values for each member to a tensor that they share."""


# Ways to run an operator for all members at once. The first one that does not return NotImplemented is used.


def by_rule(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any) -> Any:
    """Use the operator's rule. All views share one rule, and all element-wise operators share another."""
    from metatensor.func._rules import RULES, broadcast, view

    if "out" in kwargs:
        return NotImplemented
    functional = func.functional
    rule = RULES.get(functional.name, view if functional.flags & VIEW_FLAG else None)
    if rule is None and functional.flags & ELEMENTWISE_FLAG and functional.name not in _MIXING:
        rule = broadcast
    return NotImplemented if rule is None else rule(func, level, args, kwargs)


def by_copy(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any) -> Any:
    """Run an in-place call, or one with `out=`, as the functional operator, and copy the result into the target."""
    if mutated is None or not (func.variant or "out" in kwargs) or isinstance(mutated, (list, tuple)):
        return NotImplemented
    result = func.functional(*args, **{name: value for name, value in kwargs.items() if name != "out"})
    if not isinstance(result, Tensor) or result.shape != mutated.shape:
        return NotImplemented
    return mutated.copy_(result)


def by_body(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any) -> Any:
    """Run the body of a composite operator, which calls others."""
    if mutated is not None and (func.variant or "out" in kwargs) or not func.functional.flags & COMPOSITE_FLAG:
        return NotImplemented
    return run_body(func, args, kwargs)


def by_parts(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any) -> Any:
    """Compute an operator with others, by the function registered with `recorded_as` or by its decomposition."""
    if mutated is not None:
        return NotImplemented
    found = bound_arguments(func, args, kwargs)
    if found is None:
        return NotImplemented
    overload, given = found
    for body in (parts_of(overload.qualname), decompositions().get(overload.qualname)):
        result = NotImplemented if body is None else body(*given.values())
        if result is not NotImplemented:
            return result
    return NotImplemented


_WAYS = (by_rule, by_copy, by_body, by_parts)


def _by_member(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any, random: bool) -> Any:
    """Call an operator for each member and stack the results."""
    values = [x.value for x in _tree.flatten([args, kwargs]) if isinstance(x, Batched) and x.level is level]
    size = values[0].shape[0]
    if size == 0:
        stand_in = unwrap_all([args, kwargs], level, None)
        stand_in = _tree.tree_map(lambda x: x, stand_in)
        one = _tree.tree_map(lambda x: x.new_empty(x.shape[1:]) if any(x is v for v in values) else x, stand_in)
        result = func(*one[0], **one[1])
        return _tree.tree_map(lambda x: wrap(x.new_empty((0, *x.shape)), level) if isinstance(x, Tensor) else x, result)
    no_data = any(not has_values(_innermost(value)) for value in values)
    state = mt.get_rng_state() if random and level.randomness == "same" else None
    results = []
    level.inside_member += 1
    try:
        # Without data, one member has the metadata of all. But other dispatch modes must receive every call.
        watched = any(not isinstance(mode, Level) for mode in current_modes())
        for at in range(1 if no_data and not watched else size):
            if state is not None:
                mt.set_rng_state(state)
            one_args, one_kwargs = unwrap_all([args, kwargs], level, at)
            results.append(func(*one_args, **one_kwargs))
    finally:
        level.inside_member -= 1
    if size > 1 and not random and not no_data:
        warnings.warn(f"vmap: {func.name} has no rule for a batch of these arguments and runs for one member after another", stacklevel=4)
    if mutated is not None:
        return mutated
    leaves = [_tree.flatten(result) for result in results]
    together = [_together(list(column), size, level, func) for column in zip(*leaves, strict=True)]
    return _tree.unflatten(results[0], together)


def _innermost(value: Any) -> Any:
    while isinstance(value, Batched):
        value = value.value
    return value


def _together(column: list[Any], size: int, level: Level, func: Any) -> Any:
    """Combine the results of all members for one leaf of the nested result into a batched tensor.

    Python values must be equal for all members.
    """
    if not isinstance(column[0], Tensor):
        if any(other != column[0] for other in column):
            raise RuntimeError(f"vmap: {func.name} gives a different result for each member of the batch")
        return column[0]
    if any(other.shape != column[0].shape for other in column):
        raise RuntimeError(f"vmap: the shape of the result of {func.name} differs between the members of the batch")
    value = mt.stack(column) if len(column) == size else column[0].unsqueeze(0).expand(size, *column[0].shape).contiguous()
    return wrap(value, level)

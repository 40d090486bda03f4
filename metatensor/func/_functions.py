"""`autograd.Function` under `vmap`."""

from __future__ import annotations

from typing import Any, NamedTuple

from metatensor._core.tensor import Tensor
from metatensor.autograd.function import Function, FunctionCtx
from metatensor.func import _tree
from metatensor.func._batched import Batched, Level, peel, wrap

__all__ = ["CUSTOM", "VmapInfo", "batched_apply", "by_custom_rule"]


class VmapInfo(NamedTuple):
    """The argument `info` of the ``vmap`` method of a custom function."""

    batch_size: int
    randomness: str


def batched_apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a custom function to batched tensors. Return NotImplemented if there are none."""
    batches = [x for x in _tree.flatten(list(args)) if isinstance(x, Batched)]
    if not batches:
        return NotImplemented
    level = max((x.level for x in batches), key=lambda level: level.depth)
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(f"{cls.__name__}: define vmap, or set generate_vmap_rule = True, but not both")
    if own:
        return _by_rule(cls, level, args)
    if not cls.generate_vmap_rule:
        raise RuntimeError(f"vmap: {cls.__name__} has no rule for a batch; define vmap, or set generate_vmap_rule = True")
    return _generated(cls, level, args, kwargs)


def _by_rule(cls: Any, level: Level, args: tuple[Any, ...]) -> Any:
    dims = _tree.tree_map(lambda x: 0 if _is_batch(x, level) else None, list(args))
    values = _tree.tree_map(lambda x: x.value if _is_batch(x, level) else x, list(args))
    returned = cls.vmap(VmapInfo(level.size, level.randomness), tuple(dims), *values)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(f"{cls.__name__}: vmap must return a tuple of the outputs and their batch dimensions")
    return _placed(cls.__name__, level, *returned)


CUSTOM: dict[str, Any] = {}  # rules of custom operators, by name: functions of VmapInfo, batch dimensions, and arguments


def by_custom_rule(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute with the rule of a custom operator. Return NotImplemented if it has none."""
    rule = CUSTOM.get(func.name)
    if rule is None:
        return NotImplemented
    dims = _tree.tree_map(lambda x: 0 if _is_batch(x, level) else None, list(args))
    given, named = _tree.tree_map(lambda x: x.value if _is_batch(x, level) else x, [list(args), kwargs])
    outputs, out_dims = rule(VmapInfo(level.size, level.randomness), tuple(dims), *given, **named)
    return _placed(func.name, level, outputs, out_dims)


def _placed(name: str, level: Level, outputs: Any, out_dims: Any) -> Any:
    """Return outputs as batched tensors, given where their batch dimensions are."""
    where = _tree.broadcast_prefix(out_dims, outputs)
    if where is None:
        raise RuntimeError(f"{name}: the batch dimensions that vmap returned do not have the structure of the outputs")
    made = [y if dim is None or not isinstance(y, Tensor) else wrap(y.movedim(dim, 0), level)
            for y, dim in zip(_tree.flatten(outputs), where, strict=True)]
    return _tree.unflatten(outputs, made)


def _is_batch(x: Any, level: Level) -> bool:
    return isinstance(x, Batched) and x.level is level


class _Context(FunctionCtx):
    """The context of the function for one member."""

    saved_tensors: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True


def _generated(cls: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a custom function whose methods are called with batched tensors."""
    batched = [_is_batch(x, level) for x in args]
    inner = _Context()
    form: list[Any] = []

    def members(values: Any, flags: list[bool]) -> list[Any]:
        return [wrap(v, level) if flag and isinstance(v, Tensor) else v for v, flag in zip(values, flags, strict=True)]

    def taken(values: Any) -> tuple[list[Any], list[bool]]:
        flags = [_is_batch(v, level) for v in values]
        return [v.value if flag else v for v, flag in zip(values, flags, strict=True)], flags

    class Batch(Function):
        _title = cls._title or cls.__name__

        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            given = members(values, batched)
            inner.needs_input_grad = ctx.needs_input_grad
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*given, **kwargs)
                cls.setup_context(inner, tuple(given), output)
            else:
                output = cls.forward(inner, *given, **kwargs)
            outputs = list(output) if isinstance(output, tuple) else [output]
            plain, flags = taken(outputs)
            for i, (x, v) in enumerate(zip(given, values, strict=True)):
                plain = [v if y is x else p for y, p in zip(outputs, plain, strict=True)]
                inner.dirty_tensors = tuple(v if t is x else t for t in inner.dirty_tensors)
                inner.to_save = tuple(values[i] if t is x and not batched[i] else t for t in inner.to_save)
            ctx.mark_dirty(*[t.value if _is_batch(t, level) else t for t in inner.dirty_tensors])
            ctx.mark_non_differentiable(*[p for y, p in zip(outputs, plain, strict=True) if any(y is t for t in inner.non_differentiable)])
            ctx.set_materialize_grads(inner.materialize_grads)
            saved, ctx.saved_flags = taken(inner.to_save)
            ctx.save_for_backward(*saved)
            ahead, ctx.ahead_flags = taken(inner.saved_for_forward)
            ctx.save_for_forward(*ahead)
            inner.to_save = inner.saved_for_forward = ()
            ctx.output_flags = flags
            form.append((isinstance(output, tuple), flags))
            return tuple(plain)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with level:
                inner.saved_tensors = tuple(members(ctx.saved_tensors, ctx.saved_flags))
                inner.needs_input_grad = ctx.needs_input_grad
                found = cls.backward(inner, *members(grads, ctx.output_flags))
                found = found if isinstance(found, tuple) else (found,)
                made: list[Any] = []
                for g, flag in zip(found, batched):
                    if g is None:
                        made.append(None)
                    else:
                        made.append(peel(g, level) if flag else g.value.sum(0) if _is_batch(g, level) else g)
                inner.saved_tensors = ()
            return tuple(made)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with level:
                inner.saved_tensors = tuple(members(ctx.saved_tensors, ctx.ahead_flags))
                found = cls.jvp(inner, *members(tangents, batched))
                found = found if isinstance(found, tuple) else (found,)
                inner.saved_tensors = ()
                return tuple(t if t is None else peel(t, level) if flag else t for t, flag in zip(found, ctx.output_flags, strict=True))

    Batch.__name__ = cls.__name__
    Batch._backward_cls.__name__ = cls._backward_cls.__name__
    made = Batch.apply(*[x.value if flag else x for x, flag in zip(args, batched, strict=True)])
    many, flags = form[0]
    outputs = tuple(wrap(y, level) if flag else y for y, flag in zip(made, flags, strict=True))
    return outputs if many else outputs[0]

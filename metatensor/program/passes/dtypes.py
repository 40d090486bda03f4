"""`change_dtype`: programs in another precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Value
from metatensor._core.dtype import DType
from metatensor._core.op import operator_flags, registry
from metatensor.program.passes.rewriting import Rewriter, used
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["change_dtype"]


def change_dtype(
    program: Program, dtype: DType, *, source: DType | None = None, keep: Callable[[ProgramCall], bool] | None = None
) -> Program:
    """Return the program with one floating-point dtype replaced by another in arguments, parameters, buffers, constants and results.

    Calls compute in the new dtype, so results differ by rounding. A dtype argument of a call, such as that of
    ``zeros(3, dtype=float32)``, is replaced too. The program's tensors are converted; those on meta only change their dtype.

    Parameters
    ----------
    program : Program
        A program.
    dtype : dtype
        The new dtype, a floating-point one.
    source : dtype, optional
        The dtype to replace. Default: float32.
    keep : callable, optional
        Returns True for calls that compute in the old dtype: their arguments are converted to it, and their results from it.

    Raises
    ------
    ValueError
        If a dtype is not a floating-point dtype, or a call that `keep` chooses writes to a tensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(mt.nn.Linear(3, 2, device="meta"), mt.empty(1, 3, device="meta"))
    >>> half = mt.program.change_dtype(program, mt.bfloat16)
    >>> half.outputs[0].dtype, half.tensors["weight"].dtype
    (metatensor.bfloat16, metatensor.bfloat16)
    """
    source = mt.float32 if source is None else source
    for one in (dtype, source):
        if not one.is_floating_point:
            raise ValueError(f"change_dtype: {one} is not a floating-point dtype")
    if source is dtype:
        return program
    made = Rewriter(program)

    def changed(value: Value) -> Value:
        if value.dtype is not source:
            return value
        return made.like(value, dtype, value.storage)

    new: dict[int, Value] = {}
    for value in [*program.inputs, *program.held.values()]:
        if value.number not in new:
            new[value.number] = changed(value)
            made.replace(value, new[value.number])
    made.held = {name: new[value.number] for name, value in program.held.items()}
    made.tensors = _converted(program, source, dtype)
    for i, call in enumerate(program.calls):
        made.at(i)
        if keep is not None and keep(call) and any(v.dtype is source for v in [*used(call), *leaves(Value, call.result)]):
            _in_old_dtype(made, call, source, dtype)
            continue
        args, kwargs = mapped(lambda d: dtype if d is source else d, DType, (call.args, call.kwargs))
        if call.op.name == "_from_host" and call.args[3] is source:
            _cast_constant(made, call, dtype)
        elif args != call.args or kwargs != call.kwargs or any(made.value(value) is not value for value in used(call)):
            args, kwargs = made.mapped((args, kwargs))
            _emitted(made, call, args, kwargs, source, dtype)
        elif not used(call) and any(value.dtype is source for value in leaves(Value, call.result)):
            _emitted(made, call, args, {**kwargs, "dtype": dtype}, source, dtype)
        else:
            made.keep(call)
    return made.finish(arguments=mapped(lambda value: new[value.number], Value, program.arguments))


def _emitted(made: Rewriter, call: ProgramCall, args: Any, kwargs: dict[str, Any], source: DType, dtype: DType) -> None:
    writes = [made.value(value) for value in call.writes]
    device = next((value.device for value in leaves(Value, call.result)), None)
    if any(overload.flags & operator_flags.DATA for overload in call.op.overloads) and not call.writes:
        # meta does not know the sizes
        result = mapped(lambda v: made.like(v, dtype if v.dtype is source else v.dtype, made.new_storage()), Value, call.result)
        made.calls.append(call.replace(args=args, kwargs=kwargs, result=result))
    else:
        result = made.emit(call.op, args, kwargs, like=call, writes=writes, device=device)
    if result is not None:
        made.replace(call.result, result)


def _cast_constant(made: Rewriter, call: ProgramCall, dtype: DType) -> None:
    made.keep(call)
    made.replace(call.result, made.emit(registry["_to_copy"], (call.result, dtype), {}, like=call))


def _in_old_dtype(made: Rewriter, call: ProgramCall, source: DType, dtype: DType) -> None:
    if call.writes:
        raise ValueError(f"change_dtype: {call.op.name} writes to a tensor, so it cannot keep its dtype; use functionalize first")
    casts: dict[int, Value] = {}
    for value in used(call):
        now = made.value(value)
        if now.dtype is not value.dtype and value.number not in casts:
            casts[value.number] = made.emit(registry["_to_copy"], (now, source), {}, like=call)
    args, kwargs = mapped(lambda value: casts.get(value.number) or made.value(value), Value, (call.args, call.kwargs))
    device = next((value.device for value in leaves(Value, call.result)), None)
    result = made.emit(call.op, args, kwargs, like=call, device=device)
    for old, now in zip(leaves(Value, call.result), leaves(Value, result), strict=True):
        made.replace(old, made.emit(registry["_to_copy"], (now, dtype), {}, like=call) if now.dtype is source else now)


def _converted(program: Program, source: DType, dtype: DType) -> dict[str, Any]:
    """Return the tensors of a program in the new dtype. Those that share memory share it afterwards."""
    made: dict[str, Any] = {}
    groups: dict[int, list[str]] = {}
    for name, value in program.held.items():
        if name in program.tensors:
            groups.setdefault(value.storage, []).append(name)
    for group in groups.values():
        if all(program.held[name].dtype is not source for name in group):
            made.update({name: program.tensors[name] for name in group})
            continue
        if any(program.held[name].dtype is not source for name in group):
            raise ValueError(f"change_dtype: {', '.join(group)} share memory with different dtypes")
        if len(group) == 1:
            made[group[0]] = _parameter(program.tensors[group[0]], program.tensors[group[0]].detach().to(dtype))
            continue
        storage = program.tensors[group[0]].untyped_storage()
        first = program.tensors[group[0]].detach()
        whole = first.as_strided((storage.nbytes() // source.itemsize,), (1,), 0).to(dtype)
        for name in group:
            t = program.tensors[name]
            made[name] = _parameter(t, whole.as_strided(t.shape, t.stride(), t.storage_offset()))
    return {name: made[name] for name in program.held if name in made}


def _parameter(old: Any, new: Any) -> Any:
    if isinstance(old, mt.nn.Parameter):
        return mt.nn.Parameter(new, requires_grad=old.requires_grad)
    return new.requires_grad_() if old.requires_grad else new

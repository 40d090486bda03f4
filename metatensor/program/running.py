"""Running a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import metatensor as mt
from metatensor._core.capture import Ticket, Value
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.op import registry
from metatensor._core.tensor import Tensor
from metatensor.amp import _all_disabled, _is_any_autocast_enabled
from metatensor.deferred.known import is_constant, known_bytes
from metatensor.program.argument_names import by_position, label, names_of_positional
from metatensor.program.program import Program, check
from metatensor.program.structure import Opaque, leaves, mapped
from metatensor.program.tickets import Tickets

__all__ = ["as_traced", "fill", "match_arguments", "matched", "run", "uncounted_writes", "with_values"]

_META = mt.device("meta")


@contextmanager
def as_traced(default_dtype: DType | None) -> Iterator[None]:
    """Return a context in which calls do what they did when they were traced, whatever the caller's settings are.

    Inside, autocast is disabled, because a trace has the calls that autocast made, and the default dtype is that of the trace.
    It also works as a decorator; `Program.code` has it.

    Parameters
    ----------
    default_dtype : dtype or None
        The default dtype of the trace. None keeps the caller's.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.program.as_traced(mt.float64):
    ...     print(mt.ones(2, device="meta").dtype)
    metatensor.float64
    """
    now = mt.get_default_dtype()
    other = default_dtype is not None and default_dtype is not now
    if other and default_dtype is not None:
        mt.set_default_dtype(default_dtype)
    try:
        with _all_disabled() if _is_any_autocast_enabled() else nullcontext():
            yield
    finally:
        if other:
            mt.set_default_dtype(now)


def with_values(tensor: Tensor, device: Any) -> Tensor | None:
    """Return a copy on a device of a tensor on meta whose values follow from constants, or None if they do not."""
    if not is_constant(tensor):
        return None
    with mt.no_grad():
        made = registry["_from_host"](known_bytes(tensor), tensor.shape, _strides(tensor.shape), tensor.dtype, device)
        if made.stride() != tensor.stride():
            flat, made = made, mt.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
            fill(made, flat)
    return mt.nn.Parameter(made, requires_grad=tensor.requires_grad) if isinstance(tensor, mt.nn.Parameter) else made


def _strides(shape: Iterable[int]) -> tuple[int, ...]:
    sizes = tuple(shape)
    return tuple(math.prod(max(n, 1) for n in sizes[i + 1 :]) for i in range(len(sizes)))


def fill(tensor: Tensor, data: Tensor) -> None:
    """Write data to a tensor, of which several elements may share a place in memory."""
    for dim, (n, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        if stride == 0 and n > 1:
            tensor, data = tensor.narrow(dim, 0, 1), data.narrow(dim, 0, 1)
    extent = 1
    for stride, n in sorted((stride, n) for stride, n in zip(tensor.stride(), tensor.shape) if n > 1):
        if stride < extent:  # windows that overlap
            break
        extent = stride * (n - 1) + extent
    else:
        tensor.copy_(data)
        return
    places = mt.zeros(tensor.shape, dtype=mt.int64, device=tensor.device)
    for dim, (n, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        places += (mt.arange(n, device=tensor.device) * stride).reshape(*[-1 if d == dim else 1 for d in range(tensor.dim())])
    last = int(places.max())
    tensor.as_strided((last + 1,), (1,), tensor.storage_offset())[places.reshape(-1)] = data.reshape(-1).to(tensor.device)


def matched(program: Program, args: tuple, kwargs: dict[str, Any]) -> dict[int, Tensor]:
    """Return the tensors among the arguments by the numbers of their values. Raise if they do not match those of the trace."""
    env: dict[int, Tensor] = {}
    args, kwargs = by_position(program, args, kwargs)
    match_arguments(program.arguments, args, kwargs, env, program.name, names_of_positional(program))
    return env


def match_arguments(
    arguments: tuple, args: tuple, kwargs: dict[str, Any], env: dict[int, Tensor], title: str, names: Sequence[str] = ()
) -> None:
    """Compare the arguments of a call with those of the capture, and collect the tensors among them in `env`.

    `title` and `names`, those of positional arguments, are for messages.
    """
    wanted, named = arguments
    if len(args) != len(wanted):
        listed = f" ({', '.join(names)})" if names else ""
        expected = f"{len(wanted)} positional argument{'s' if len(wanted) != 1 else ''}{listed}"
        raise TypeError(f"{title}(): expected {expected}, got {len(args)}{_also(kwargs, named)}")
    if kwargs.keys() != named.keys():
        raise TypeError(f"{title}(): expected {_keywords(named)}, got {_keywords(kwargs)}")
    for i, (one, got) in enumerate(zip(wanted, args)):
        _match(one, got, env, title, label(names, i))
    for key, one in named.items():
        _match(one, kwargs[key], env, title, f"argument {key!r}")


def _also(kwargs: dict[str, Any], named: dict[str, Any]) -> str:
    """Return text for keyword arguments that a program does not take."""
    unknown = [key for key in kwargs if key not in named]
    return f" and {_keywords(unknown)}" if unknown else ""


def _keywords(names: Iterable[str]) -> str:
    found = ", ".join(map(str, names))
    return f"the keyword arguments {found}" if found else "no keyword arguments"


def run(program: Program, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a program on arguments, and return its output."""
    env = matched(program, args, kwargs)
    try:
        with as_traced(program.default_dtype):
            return _run(program, env)
    finally:
        env.clear()  # a closure refers to it, and would keep the last values until a garbage collection


def _run(program: Program, env: dict[int, Tensor]) -> Any:
    """Run a program, given the tensors of its inputs by number."""
    for name, value in program.held.items():
        if name not in program.tensors:
            raise RuntimeError(f"{program.name}: there is no tensor for {program.kinds[name]} {name!r}; pass one to bind()")
        env[value.number] = program.tensors[name]
    devices = _moved(program, env)
    place = devices.get(_META)
    if place is not None and place.type != "meta":
        for name, value in program.held.items():
            if value.device == _META and env[value.number].is_meta:
                env[value.number] = _placed(program, name, place)
    tickets, places, uncounted = Tickets(), _places(program), uncounted_writes(program)
    trains = any(call.backward for call in program.calls)
    last = len(program.calls) - 1

    def given(argument: Any) -> Any:
        kind = type(argument)
        if kind is Value:
            return env[argument.number]
        if kind is tuple or kind is list:
            return kind([given(a) for a in argument])
        if kind is Device:
            return devices.get(argument, argument)
        if kind is Ticket:
            return tickets(argument.number, argument.generator)
        return argument

    grad = mt.is_grad_enabled()
    for i, call in enumerate(program.calls):
        wanted = grad and call.grad and not trains
        with nullcontext() if wanted == mt.is_grad_enabled() else mt.set_grad_enabled(wanted):
            passed = [given(a) for a in call.args]
            if i in uncounted:
                passed[0] = passed[0].data
            result = call.op(*passed, **{key: given(a) for key, a in call.kwargs.items()})
        if i not in uncounted:
            _keep(call.result, result, env)
        del passed
        del result
        if i != last:
            for number in places.get(i, ()):
                env.pop(number, None)
    made = mapped(lambda value: env[value.number], Value, program.output)
    for kind, name, value in program.effects:
        if kind == "grad":
            program.tensors[name].grad = env[value.number]
        else:
            program.tensors[name] = env[value.number]
    tickets.finish()
    for number in places.get(last, ()):  # what the callable released when it returned, in its order
        env.pop(number, None)
    return made


def _moved(program: Program, env: dict[int, Tensor]) -> dict[Device, Device]:
    """Return a dict from devices of the trace to the devices on which the tensors are now, where the two differ."""
    devices: dict[Device, Device] = {}
    for value in [*program.inputs, *program.held.values()]:
        there = env[value.number].device
        if value.device != there and (value.device not in devices or devices[value.device].type == "meta"):
            devices[value.device] = there
    return devices


def _placed(program: Program, name: str, device: Device) -> Tensor:
    """Return a tensor that the program holds on meta, on the device of this run. Raise if its values are unknown."""
    key, tensor = (name, device), program.tensors[name]
    found = program._placed.get(key)
    if found is None or found[0] is not tensor:
        made = with_values(tensor, device)
        if made is None:
            raise RuntimeError(f"{program.name}: {program.kinds[name]} {name!r} is on meta and has no data, and the program runs on "
                               f"{device}; give it data with program.bind({{{name!r}: tensor}})")
        found = program._placed[key] = tensor, made
    return found[1]


_UPDATES = {"_batch_norm_forward": 3, "nn.functional._batch_norm_train": 1, "nn.functional._instance_norm_train": 1}
"""Operators that return new running statistics, and the place of the first among the results."""


def uncounted_writes(program: Program) -> frozenset[int]:
    """Return the indices of the calls that write through ``.data``, which autograd does not see.

    These are the updates of running statistics inside ``batch_norm``. They are recognized here, because a `ProgramCall` does not mark them.
    """
    if program._uncounted is None:
        updates: set[int] = set()
        found = []
        for i, call in enumerate(program.calls):
            if call.op.name in _UPDATES:
                updates.update(value.number for value in leaves(Value, call.result[_UPDATES[call.op.name] :]))
            elif call.op.name == "copy_" and isinstance(call.args[1], Value) and call.args[1].number in updates:
                found.append(i)
        program._uncounted = frozenset(found)
    return program._uncounted


def _keep(values: Any, result: Any, env: dict[int, Tensor]) -> None:
    if type(values) is Value:
        env[values.number] = result
    elif values is not None:
        for value, one in zip(values, result):
            _keep(value, one, env)


def _places(program: Program) -> dict[int, list[int]]:
    """Return the numbers of the values that are released after each call."""
    plan = program._plan
    if plan is None:
        by_storage: dict[int, list[int]] = {}
        for value in program.values.values():
            by_storage.setdefault(value.storage, []).append(value.number)
        keep = {value.storage for value in [*program.inputs, *program.outputs, *program.held.values(), *(e.value for e in program.effects)]}
        plan = program._plan = {at: [number for s in storages if s not in keep for number in by_storage.get(s, ())]
                                for at, storages in program.releases.items()}  # fmt: skip
    return plan


def _match(wanted: Any, got: Any, env: dict[int, Tensor], name: str, place: str) -> None:
    """Compare arguments with those of the capture, and collect the tensors among them."""
    if not isinstance(wanted, (Value, dict, list, tuple)) and next(leaves(Value, wanted), None) is not None:
        wanted = vars(wanted)  # an object with tensors, such as a cache
    if isinstance(wanted, dict) and not isinstance(got, dict) and hasattr(got, "__dict__"):
        got = vars(got)
    if isinstance(wanted, Value):
        check(wanted, got, f"{name}(): {place}")
        before = env.get(wanted.number)
        if before is not None and before is not got and not before.is_set_to(got):
            raise ValueError(f"{name}(): {place} was the same tensor as an argument before it when the program was traced, and is "
                             "another one now; trace with different tensors")  # fmt: skip
        env[wanted.number] = got
    elif isinstance(wanted, dict):
        if not isinstance(got, dict) or set(got) != set(wanted):
            raise TypeError(f"{name}(): {place} must have the keys {sorted(map(str, wanted))}, got "
                            f"{sorted(map(str, got)) if isinstance(got, dict) else type(got).__name__}")  # fmt: skip
        for key, item in wanted.items():
            _match(item, got[key], env, name, f"{place}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(wanted):
            found = len(got) if isinstance(got, (list, tuple)) else type(got).__name__
            raise TypeError(f"{name}(): {place} must have {len(wanted)} elements, got {found}")
        for i, (one, other) in enumerate(zip(wanted, got)):
            _match(one, other, env, name, f"{place}[{i}]")
    elif isinstance(wanted, Opaque):
        if type(got).__name__ != wanted.kind:
            now = type(got).__name__
            raise TypeError(f"{name}(): {place} was of class {wanted.kind} when the program was traced, and is of class {now} now")
    elif next(leaves(Tensor, got), None) is not None:
        raise TypeError(f"{name}(): {place} was {wanted!r} when the program was traced, and is a tensor now")
    elif wanted is not got and not _same(wanted, got):
        raise ValueError(f"{name}(): {place} was {wanted!r} when the program was traced, and is {got!r} now; trace again")


def _same(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:
        return False

"""`split`: several programs that run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.tensor import Tensor
from metatensor.program.passes.rewriting import released, used
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["Parts", "module_calls", "rebased", "split"]


class Parts:
    """Programs that run one after the other. Created by `split`.

    A call computes the same as the program that was split. The arguments of each part are tensors, from earlier parts or from
    the arguments of the whole, in the order of ``part.inputs``. It returns the tuple of ``part.outputs``.

    Attributes
    ----------
    programs : tuple of Program
        The parts in order.
    whole : Program
        The program that was split.
    """

    def __init__(self, whole: Program, programs: Iterable[Program]) -> None:
        self.whole, self.programs = whole, tuple(programs)

    def __len__(self) -> int:
        return len(self.programs)

    def __iter__(self) -> Any:
        return iter(self.programs)

    def __getitem__(self, index: int) -> Program:
        return self.programs[index]

    def __repr__(self) -> str:
        return f"Parts({self.whole.name!r}, calls={[len(part) for part in self.programs]})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run all parts, and return what the whole returns."""
        from metatensor.program.running import matched

        env: dict[int, Tensor] = matched(self.whole, args, kwargs)
        del args, kwargs
        last: dict[int, int] = {}
        for i, part in enumerate(self.programs):
            last.update({value.number: i for value in part.inputs})
        kept = {value.number for value in self.whole.outputs}
        held = {value.number: name for name, value in self.whole.held.items()}
        for i, part in enumerate(self.programs):
            results = part(*[env[value.number] for value in part.inputs])
            env.update({value.number: t for value, t in zip(part.outputs, results)})
            for number in [n for n, at in last.items() if at <= i and n not in kept]:
                env.pop(number, None)
            for kind, name, _ in part.effects:
                if kind == "replaced":
                    for other in self.programs:
                        if name in other.held:
                            other.tensors[name] = part.tensors[name]
        for number in kept - env.keys():
            if number in held:
                name = held[number]
                env[number] = next(part.tensors[name] for part in self.programs if name in part.held)
        return mapped(lambda value: env[value.number], Value, self.whole.output)


def split(program: Program, *, at: Iterable[str] | None = None, nbytes: int | None = None,
          where: Callable[[ProgramCall], bool] | None = None) -> Parts:  # fmt: skip
    """Split a program into parts that compute the same when they run one after the other.

    One of the three options determines where parts begin. A value that a later part needs is an output of one part and an
    argument of the other, so the caller holds it in between. Effects on gradients and buffers are left to the last part.

    Parameters
    ----------
    program : Program
        A program.
    at : iterable of str, optional
        Paths of modules. A part begins with the first call of each of them.
    nbytes : int, optional
        Maximum bytes of parameters, buffers and constants in a part. A call that needs more is a part of its own.
    where : callable, optional
        Returns True for the calls with which a part begins.

    Raises
    ------
    ValueError
        If not exactly one of `at`, `nbytes` and `where` is given, or a path names no module with calls.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.ReLU(), mt.nn.Linear(16, 4))
    >>> program = mt.program.trace(model, mt.empty(2, 8, device="meta"))
    >>> parts = mt.program.split(program, at=["2"])
    >>> [list(part.held) for part in parts]
    [['0.weight', '0.bias'], ['2.weight', '2.bias']]
    >>> parts(mt.empty(2, 8, device="meta")).shape
    metatensor.Size([2, 4])
    """
    if sum(given is not None for given in (at, nbytes, where)) != 1:
        raise ValueError("split: give one of at, nbytes and where")
    if at is not None:
        starts = _at_modules(program, list(at))
    elif nbytes is not None:
        starts = _by_size(program, nbytes)
    else:
        assert where is not None
        starts = [i for i, call in enumerate(program.calls) if where(call)]
    bounds = sorted({0, *starts, len(program.calls)})
    ranges = list(zip(bounds, bounds[1:])) or [(0, 0)]
    return Parts(program, _parts(program, ranges))


def _at_modules(program: Program, paths: list[str]) -> list[int]:
    return [module_calls(program, path)[0] for path in paths]


def module_calls(program: Program, path: str) -> list[int]:
    """Return the indices of the calls inside a module. Raise ValueError if there are none."""
    inside = {i for i, name in enumerate(program.modules) if name == path or name.startswith(f"{path}.")}
    found = [i for i, call in enumerate(program.calls) if call.module in inside]
    if not found:
        raise ValueError(f"split: {program.name} has no call of a module {path!r}")
    return found


def _by_size(program: Program, limit: int) -> list[int]:
    size: dict[int, int] = {}
    for value in program.held.values():
        size[value.storage] = max(size.get(value.storage, 0), prod(value.shape) * value.dtype.itemsize)
    starts: list[int] = []
    there: set[int] = set()
    for i, call in enumerate(program.calls):
        new = {value.storage for value in used(call)} & size.keys()
        if i and sum(size[s] for s in there | new) > limit and new - there:
            starts.append(i)
            there = set()
        there |= new
    return starts


def _parts(program: Program, ranges: list[tuple[int, int]]) -> Iterable[Program]:
    trains = any(call.backward for call in program.calls)
    given = {value.number: value for value in program.inputs}
    held = {value.number: name for name, value in program.held.items()}
    made: dict[int, Value] = dict(given)
    taken: dict[Any, int] = {}
    later: list[set[int]] = [set() for _ in ranges]
    needed = {value.number for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    for i in range(len(ranges) - 1, -1, -1):
        later[i] = set(needed)
        needed |= {value.number for call in program.calls[slice(*ranges[i])] for value in used(call)}
    for i, (start, stop) in enumerate(ranges):
        final = i == len(ranges) - 1
        calls = [rebased(call, taken) for call in program.calls[start:stop]]
        if trains:
            calls = [call.replace(grad=False) for call in calls]
        for call in program.calls[start:stop]:
            for ticket in leaves(Ticket, (call.args, call.kwargs)):
                taken[ticket.generator] = max(taken.get(ticket.generator, 0), ticket.number + 1)
        results = {value.number: value for call in calls for value in leaves(Value, call.result)}
        wanted = {value.number for call in calls for value in used(call)}
        if final:
            wanted |= {effect.value.number for effect in program.effects}
        inputs = [value for number, value in made.items() if number in wanted]
        outputs = [value for number, value in results.items() if number in later[i] and number not in made]
        if final:
            outputs = [value for value in outputs if value.number in {v.number for v in program.outputs}]
        names = {name for number, name in held.items() if number in wanted}
        if final:
            names |= {effect.name for effect in program.effects if effect.name in program.held}
        made.update({value.number: value for value in outputs if value.number not in held})
        yield Program(
            f"{program.name}_{i}", arguments=(tuple(inputs), {}), output=tuple(outputs), calls=calls,
            held={name: v for name, v in program.held.items() if name in names},
            kinds={name: kind for name, kind in program.kinds.items() if name in names},
            tied={name: own for name, own in program.tied.items() if own in names},
            tensors={name: t for name, t in program.tensors.items() if name in names},
            effects=program.effects if final else (), releases=released(calls), modules=program.modules,
            reads=[(n - start, op, value) for n, op, value in program.reads if start <= n < stop or n == stop and final],
            default_dtype=program.default_dtype,
        )  # fmt: skip


def rebased(call: ProgramCall, taken: dict[Any, int]) -> ProgramCall:
    """Return a call with its tickets counted from the beginning of its part."""
    before = dict(taken)
    if not before or next(leaves(Ticket, (call.args, call.kwargs)), None) is None:
        return call

    def moved(ticket: Ticket) -> Ticket:
        return Ticket(ticket.generator, ticket.number - before.get(ticket.generator, 0))

    args, kwargs = mapped(moved, Ticket, (call.args, call.kwargs))
    return call.replace(args=args, kwargs=kwargs)

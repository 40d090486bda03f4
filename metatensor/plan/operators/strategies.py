"""The ways to run a call on the ranks of a mesh, with what each costs on one rank.

They follow from the sharding rules of operators. Only ways that cut dimensions into equal parts are considered, so that all ranks have
the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.device import Device
from metatensor._core.op import operator_flags
from metatensor._core.sharded import quietly, wrap
from metatensor._core.tensor import Tensor
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.timing import predict
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import Replicate, Shard
from metatensor.distributed.tensor._communicating import run_inside
from metatensor.distributed.tensor._moving import moved, part_shape
from metatensor.distributed.tensor._planning import CallOnMesh, Way, _fits, _local_numbers, call_by_slots, ways
from metatensor.distributed.tensor.placement_types import Partial, Placement, interned
from metatensor.program.fx.from_program import _bound
from metatensor.program.structure import leaves, mapped

__all__ = ["Costs", "Placements", "Strategy", "call_on_mesh", "local_arguments", "placements_of_input"]

Placements = tuple[Placement, ...]


class Strategy(NamedTuple):
    """One way to run a call on a mesh.

    ``inputs`` has the placements of each tensor argument, in the order of the arguments, and ``outputs`` those of each result. ``ways``
    has the rule for each mesh dimension. ``seconds`` is the predicted time of a rank, and ``communication`` the collectives inside of the
    call: kind, bytes and ranks.
    """

    inputs: tuple[Placements, ...]
    outputs: tuple[Placements, ...]
    ways: tuple[Way, ...]
    seconds: float
    communication: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


def call_on_mesh(call: ProgramCall, mesh: Any) -> tuple[CallOnMesh | None, list[Value]]:
    """Return a call in terms of tensors on a mesh, None if it has no tensors as arguments, and the values that are its arguments.

    Raise ValueError if no overload of the operator fits.
    """
    values: list[Value] = []
    whole = (Replicate(),) * mesh.ndim

    def stand(value: Value) -> Any:
        values.append(value)
        local = mt.empty_strided(value.shape, value.stride, dtype=value.dtype, device="meta")
        return wrap(local, interned(mesh, whole, value.shape, value.stride, value.dtype))

    args, kwargs = mapped(stand, Value, (tuple(call.args), dict(call.kwargs)))
    if not values:
        return None, values
    for overload in call.op.overloads:
        found = _bound(overload, args, kwargs)
        if found is not None:
            named = {name: found[0].get(name) for name in overload.argument_names}
            return quietly(CallOnMesh, call.op, overload, list(named), list(named.values()), 0, None), values
    raise ValueError(f"place_operators: no overload of {call.op.name} fits its call")


def placements_of_input(shape: Sequence[int], mesh_shape: Sequence[int]) -> Iterator[Placements]:
    """Yield the placements that divide a tensor into equal parts, or not at all."""
    options: list[Placement] = [Replicate(), *(Shard(dim) for dim in range(len(shape)))]
    for placements in product(options, repeat=len(mesh_shape)):
        if is_even(shape, mesh_shape, placements):
            yield placements


def is_even(shape: Sequence[int], mesh_shape: Sequence[int], placements: Sequence[Placement]) -> bool:
    """Return whether all parts are equal."""
    pieces = [1] * len(shape)
    for size, one in zip(mesh_shape, placements, strict=True):
        if isinstance(one, Shard):
            pieces[one.dim] *= size
    return all(n % count == 0 and n >= count for n, count in zip(shape, pieces, strict=True))


def local_arguments(call: CallOnMesh, chosen: Sequence[Way]) -> dict[str, Any]:
    """Return the numbers among the arguments that are different for the parts than for the whole."""
    targets = {key: tuple(way.inputs.get(key, Replicate()) for way in chosen) for key in call.tensors}
    locals_ = {key: part_shape(one.shape, call.mesh, targets[key], (0,) * call.mesh.ndim) for key, one in call.tensors.items()}
    return call.fixed | _local_numbers(call, chosen, locals_)


class Costs:
    """Predicts what calls, and changes of placements, cost on a rank of a mesh.

    Parameters
    ----------
    mesh : DeviceMesh
        A mesh on meta.
    topology : Topology
        The devices and their links.
    collective : callable
        Returns the seconds of a collective: ``collective(kind, nbytes, ranks)``.
    """

    def __init__(self, mesh: Any, topology: Any, collective: Callable[[str, int, tuple[int, ...]], float]) -> None:
        self.mesh, self.profile, self.collective = mesh, topology.device, collective
        self._changes: dict[Any, tuple[float, tuple[Any, ...]]] = {}
        self._known: dict[Any, list[Strategy]] = {}
        self._allowed: dict[Any, bool] = {}

    def _run(self, run: Callable[[], Any]) -> tuple[Any, float, tuple[Any, ...]]:
        with CommunicationLog() as log, CallRecorder() as recorder, mt.no_grad():
            result = run()
        timing = predict(recorder.calls, self.profile) if recorder.calls else None
        seconds = 0.0 if timing is None else timing.seconds
        if seconds is None:
            assert timing is not None
            raise ValueError(f"place_operators: the profile of {self.profile.name} lacks {next(iter(timing.unknown))}")
        made = tuple((entry.kind, entry.bytes, entry.group) for entry in log if entry.bytes)
        return result, seconds + sum(self.collective(*one) for one in made), made

    def change(self, value: Value, source: Placements, target: Placements) -> tuple[float, tuple[Any, ...]]:
        """Return the seconds, and the collectives, of changing the placements of a tensor."""
        key = value.shape, value.dtype, source, target
        if source == target:
            return 0.0, ()
        if key not in self._changes:
            shape = part_shape(value.shape, self.mesh, source, (0,) * self.mesh.ndim)
            local = mt.empty(shape, dtype=value.dtype, device="meta")
            _, seconds, made = self._run(lambda: moved(local, self.mesh, value.shape, source, target))
            self._changes[key] = seconds, made
        return self._changes[key]

    def strategies(self, call: ProgramCall, producible: dict[int, set[Placements]]) -> tuple[list[Strategy], list[Value]]:
        """Return the ways to run a call, and the values that are its arguments.

        ``producible`` has the placements that each value can have. Ways that need partial sums are left out where there are none.
        """
        on_mesh, values = call_on_mesh(call, self.mesh)
        if on_mesh is None:
            return [self._alone(call)], values
        known = self._key(on_mesh)
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = quietly(self._found, on_mesh)
        possible = [one for one in found if self._partials_exist(one, values, producible)]
        return possible, values

    def _key(self, call: CallOnMesh) -> Any:
        arguments = {name: [None if isinstance(v, Tensor) else v for v in value] if isinstance(value, list) else value
                     for name, value in call.arguments.items() if not isinstance(value, Tensor)}  # fmt: skip
        tensors = {key: (tuple(t.shape), t.dtype, t.stride()) for key, t in call.tensors.items()}
        return call.overload.qualname, repr(arguments), tuple(tensors.items())

    def _alone(self, call: ProgramCall) -> Strategy:
        """Return the strategy of a call without tensors: each rank computes the whole result."""
        whole = (Replicate(),) * self.mesh.ndim
        generator = lambda one: one.generator
        args, kwargs = mapped(generator, Ticket, (tuple(call.args), dict(call.kwargs)))
        _, seconds, _ = self._run(lambda: call.op(*args, **kwargs))
        return Strategy((), (whole,) * len(list(leaves(Value, call.result))), (), seconds)

    def _found(self, call: CallOnMesh) -> list[Strategy]:
        name = call.op.name
        if call.overload.flags & operator_flags.DATA or "Tensor" not in call.text.rpartition("->")[2]:
            raise ValueError(f"place_operators: the result of {name} depends on values, so its operators cannot be placed")
        results = call.whole_results()
        call.sizes = [tuple(one.shape) for one in results]
        every = list(_random_ways(call, results)) if call.is_random else list(ways(call, results))
        found: dict[Any, Strategy] = {}
        for chosen in product(every, repeat=self.mesh.ndim):
            one = self._strategy(call, chosen, results)
            if one is None:
                continue
            key = one.inputs, one.outputs
            if key not in found or one.seconds < found[key].seconds:
                found[key] = one
        return list(found.values())

    def _strategy(self, call: CallOnMesh, chosen: tuple[Way, ...], results: Sequence[Any]) -> Strategy | None:
        mesh = self.mesh
        targets = {key: tuple(way.inputs.get(key, Replicate()) for way in chosen) for key in call.tensors}
        outputs = tuple(tuple(way.outputs[i] for way in chosen) for i in range(len(results)))
        if any(not is_even(tensor.shape, mesh.shape, targets[key]) for key, tensor in call.tensors.items()):
            return None
        if any(not is_even(result.shape, mesh.shape, placed) for result, placed in zip(results, outputs, strict=True)):
            return None
        if not all(_fits(call, way, dim, chosen[:dim]) for dim, way in enumerate(chosen)):
            return None
        first = (0,) * mesh.ndim
        locals_ = {key: part_shape(tensor.shape, mesh, targets[key], first) for key, tensor in call.tensors.items()}
        try:
            numbers = call.fixed | _local_numbers(call, chosen, locals_)
            parts, seconds, made = self._run(lambda: self._local(call, chosen, targets, call.new_tensors(locals_), numbers))
        except (RuntimeError, ValueError, TypeError, IndexError):
            return None
        for part, whole, placed in zip(parts, results, outputs, strict=True):
            if tuple(part.shape) != part_shape(whole.shape, mesh, placed, first):
                return None
        return Strategy(tuple(targets.values()), outputs, chosen, seconds, made)

    def _local(self, call: CallOnMesh, chosen: tuple[Way, ...], targets: Any, tensors: dict[Any, Any], numbers: dict[str, Any]) -> Any:
        if not any(way.inside is not None for way in chosen):
            return call.on_meta(tensors, numbers)
        arguments = dict(call.arguments) | numbers
        for (name, item), tensor in tensors.items():
            arguments[name] = tensor if item < 0 else [*arguments[name][:item], tensor, *arguments[name][item + 1 :]]
        return call.outputs(run_inside(call, arguments, targets, inside_dims(chosen)), arguments)

    def _partials_exist(self, one: Strategy, values: Sequence[Value], producible: dict[int, set[Placements]]) -> bool:
        """Return whether, on each mesh dimension on which arguments must be partial, at least one of them can be.

        If others are cut, such as the matrices of a product with a bias, a whole argument becomes partial at no cost.
        """
        for dim in range(self.mesh.ndim):
            if any(isinstance(placed[dim], Shard) for placed in one.inputs):
                continue
            wanted = [(value, placed[dim]) for value, placed in zip(values, one.inputs, strict=True) if isinstance(placed[dim], Partial)]
            if wanted and not any(any(own[dim] == place for own in producible[value.number]) for value, place in wanted):
                return False
        return True


def inside_dims(chosen: Sequence[Way]) -> dict[str, list[int]]:
    """Return the mesh dimensions on which a call communicates inside, by the kind of its way."""
    dims: dict[str, list[int]] = {}
    for dim, way in enumerate(chosen):
        if way.inside is not None:
            dims.setdefault(way.inside.kind, []).append(dim)
    return dims


def _random_ways(call: CallOnMesh, results: Sequence[Any]) -> Iterator[Way]:
    """Yield the ways of a random call. All ranks draw for the whole tensor, and keep their parts."""
    whole = Way({}, (Replicate(),) * len(results))
    yield whole
    keys = list(call.tensors)
    shape = tuple(call.tensors[keys[0]].shape)
    if any(tuple(t.shape) != shape for t in (*call.tensors.values(), *results)):
        return
    for dim in range(len(shape)):
        yield Way(dict.fromkeys(keys, Shard(dim)), (Shard(dim),) * len(results))


def nbytes_of(value: Value, mesh: Any, placements: Placements) -> int:
    """Return the bytes of the part of a value on one rank."""
    return prod(part_shape(value.shape, mesh, placements, (0,) * mesh.ndim)) * value.dtype.itemsize


def on_device(call: ProgramCall, device: Device) -> dict[str, Any]:
    """Return the keyword arguments of a call with another device in place of meta."""
    return {key: device if isinstance(value, Device) and value.type == "meta" else value for key, value in call.kwargs.items()}


def run_by_slots(call: CallOnMesh, arguments: dict[str, Any]) -> Any:
    """Run the operator of a call on arguments by name."""
    if "inplace" in arguments:
        arguments = {**arguments, "inplace": False}
    return call_by_slots(call.functional, call.text, arguments)

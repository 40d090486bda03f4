"""Recipes carried out by the workers of an executor: as plans that can be pickled, one for what hangs together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor._core.op import registry
from metatensor._core.recording import Constant, Ghost, Ref, Step
from metatensor._core.storage import make_storage, storage_bytes

__all__ = ["Plan", "carry_out", "run_with"]


class Plan:
    """Steps in order, with numbers for ghosts; ``targets`` are those whose bytes are wanted."""

    def __init__(self, steps: list[Step], targets: list[Ghost], device: str | None) -> None:
        self.numbers: dict[Ghost, int] = {}
        self.ghosts: list[tuple[Any, int]] = []
        self.steps = [
            (step.name, None if step.op is None else step.op.name, step.device, self._encode(step.args), self._encode(step.result))
            for step in steps
        ]
        self.targets = [self._number(ghost) for ghost in targets]
        self.device = device
        del self.numbers

    def _number(self, ghost: Ghost) -> int:
        found = self.numbers.get(ghost)
        if found is None:
            found = self.numbers[ghost] = len(self.ghosts)
            self.ghosts.append((ghost.device, ghost.nbytes))
        return found

    def _encode(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return _Place(self._number(value.ghost), value.dtype, value.size, value.stride, value.offset, value.flags)
        if isinstance(value, Constant):
            return _Value(value.value())
        if type(value) is list:
            return [self._encode(item) for item in value]
        if type(value) is tuple and any(isinstance(item, Ref) for item in value):
            return tuple(self._encode(item) for item in value)
        return value

    def decoded(self) -> tuple[list[Step], list[Ghost]]:
        """The steps, on ghosts of their own, and the targets."""
        ghosts = [Ghost(device, nbytes) for device, nbytes in self.ghosts]

        def decode(value: Any) -> Any:
            if isinstance(value, _Place):
                return Ref(ghosts[value.number], *value.rest)
            if isinstance(value, _Value):
                return Constant(value.tensor)
            if type(value) is list:
                return [decode(item) for item in value]
            return tuple(decode(item) for item in value) if type(value) is tuple else value

        steps = []
        for number, (qualname, op, device, args, result) in enumerate(self.steps):
            overload = None if op is None else next(ov for ov in registry[op].overloads if ov.qualname == qualname)
            step = Step(number, overload, decode(args), decode(result), device)
            for ref in step.result if isinstance(step.result, tuple) else (step.result,):
                if not ref.ghost.writers or ref.ghost.writers[-1] is not step:
                    ref.ghost.writers.append(step)
            steps.append(step)
        return steps, [ghosts[number] for number in self.targets]


class _Place:
    """A `Ref` that can be pickled."""

    def __init__(self, number: int, *rest: Any) -> None:
        self.number, self.rest = number, rest


class _Value:
    """A tensor with data among arguments."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def carry_out(plan: Plan) -> list[bytes]:
    """The bytes of the targets; what a worker does."""
    from metatensor.deferred import run

    targets = plan.decoded()[1]
    filled = run(targets, plan.device)
    return [storage_bytes(filled[target]) for target in targets]


def components(ghosts: Iterable[Ghost]) -> list[list[Ghost]]:
    """Ghosts in groups that share no step."""
    from metatensor.deferred import steps_for

    owner: dict[int, int] = {}
    groups: dict[int, list[Ghost]] = {}
    for i, ghost in enumerate(ghosts):
        groups[i] = [ghost]
        for step in steps_for([ghost]):
            other = owner.setdefault(step.number, i)
            if other != i and other in groups:
                groups[i] += groups.pop(other)
                owner.update({number: i for number, known in owner.items() if known == other})
    return list(groups.values())


def run_with(executor: Any, ghosts: list[Ghost], device: Any) -> dict[Ghost, Any]:
    """Storages with what these ghosts are in the end, computed by the workers of a `concurrent.futures` executor."""
    from metatensor.deferred import steps_for

    where = None if device is None else str(mt.device(device))
    jobs = []
    for group in components(dict.fromkeys(ghosts)):
        plan = Plan(steps_for(group), group, where)
        jobs.append((group, executor.submit(carry_out, plan)))
    filled = {}
    for group, job in jobs:
        for ghost, data in zip(group, job.result(), strict=True):
            filled[ghost] = _filled(ghost, data, device)
    return filled


def _filled(ghost: Ghost, data: bytes, device: Any) -> Any:
    from metatensor._core.device import backend_for
    from metatensor._core.placing import tensor_from_storage

    place = ghost.device if device is None else mt.device(device)
    backend = backend_for(place)
    storage = make_storage(place, len(data), backend.allocate(len(data), place.index or 0))
    if data:
        backend.from_host(tensor_from_storage(storage, mt.uint8, (len(data),), (1,)), data)
    return storage

"""Convert recipes to plans, which can be pickled and sent to other processes.

Plans are used in the pickles of deferred tensors and for the workers of an executor.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.op import registry
from metatensor._core.recording import Constant, Recipe, Ref, Step, next_number
from metatensor._core.replaying import give_recipe
from metatensor._core.storage import make_fake_storage, make_storage, recipe_of, storage_bytes
from metatensor.deferred import groups_of, refs_of, run, steps_for

__all__ = ["Plan", "carry_out", "rebuild_deferred", "reduce_storage", "run_with"]


class Plan:
    """Steps in order, in which numbers replace the recorded storages.

    ``targets`` are the storages whose bytes are requested.
    """

    def __init__(self, steps: list[Step], targets: list[Recipe], device: str | None) -> None:
        self.numbers: dict[Recipe, int] = {}
        self.recipes: list[tuple[Any, int, bool]] = []
        self.steps = [
            (step.name, None if step.op is None else step.op.name, step.device, self._encode(step.args), self._encode(step.result),
             self._writes(step))
            for step in steps
        ]
        self.targets = [self._number(recipe) for recipe in targets]
        self.device = device
        del self.numbers

    def _writes(self, step: Step) -> list[int]:
        """Return the numbers of the recorded storages that list the step as a writer."""
        found = dict.fromkeys(ref.recipe for ref in refs_of([step.args, step.result]))
        return [self._number(recipe) for recipe in found if any(writer is step for writer in recipe.writers)]

    def _number(self, recipe: Recipe) -> int:
        found = self.numbers.get(recipe)
        if found is None:
            found = self.numbers[recipe] = len(self.recipes)
            self.recipes.append((recipe.device, recipe.nbytes, recipe.constant))
        return found

    def _encode(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return _PickledRef(self._number(value.recipe), value.dtype, value.size, value.stride, value.offset, value.flags)
        if isinstance(value, Constant):
            return _PickledConstant(value.value())
        if type(value) is list:
            return [self._encode(item) for item in value]
        if type(value) is tuple and any(isinstance(item, Ref) for item in value):
            return tuple(self._encode(item) for item in value)
        return value

    def decoded(self) -> tuple[list[Step], list[Recipe]]:
        """Return the steps, which refer to new recorded storages, and the targets among these storages."""
        recipes = [Recipe(*facts) for facts in self.recipes]

        def decode(value: Any) -> Any:
            if isinstance(value, _PickledRef):
                return Ref(recipes[value.number], *value.rest)
            if isinstance(value, _PickledConstant):
                return Constant(value.tensor)
            if type(value) is list:
                return [decode(item) for item in value]
            return tuple(decode(item) for item in value) if type(value) is tuple else value

        steps = []
        for qualname, op, device, args, result, writes in self.steps:
            step = Step(next_number(), _overload(op, qualname), decode(args), decode(result), device)
            for number in writes:
                recipes[number].writers.append(step)
            steps.append(step)
        return steps, [recipes[number] for number in self.targets]


class _PickledRef:
    """A `Ref` that can be pickled."""

    def __init__(self, number: int, *rest: Any) -> None:
        self.number, self.rest = number, rest


class _PickledConstant:
    """A tensor with data among the arguments."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _overload(op: str | None, qualname: str) -> Any:
    if op is None:
        return None
    if op not in registry:
        raise RuntimeError(f"a recipe needs the operator {op}, which is not defined in this process: import what defines it")
    return next(ov for ov in registry[op].overloads if ov.qualname == qualname)


# Pickles ------------------------------------------------------------------------------------------


def reduce_storage(storage: Any) -> tuple[Any, ...]:
    """Return the pickle reduction of a deferred storage."""
    recipe = recipe_of(storage)
    return rebuild_deferred, (str(storage.device), storage.nbytes(), Plan(steps_for([recipe]), [recipe], None))


def rebuild_deferred(device: str, nbytes: int, plan: Plan) -> Any:
    """Rebuild a deferred storage from its pickle."""
    storage = make_fake_storage(device, nbytes)
    give_recipe(storage, plan.decoded()[1][0])
    return storage


# Executors ----------------------------------------------------------------------------------------


def carry_out(plan: Plan) -> list[bytes]:
    """Return the bytes of the targets. Workers run this."""
    targets = plan.decoded()[1]
    filled = run(targets, plan.device)
    return [storage_bytes(filled[target]) for target in targets]


def run_with(executor: Any, recipes: list[Recipe], device: Any) -> dict[Recipe, Any]:
    """Compute the final contents of recorded storages in the workers of a `concurrent.futures` executor.

    Return new storages.
    """
    where = None if device is None else str(mt.device(device))
    jobs = [(members, executor.submit(carry_out, Plan(steps, members, where))) for members, steps in groups_of(recipes)]
    filled = {}
    for members, job in jobs:
        for recipe, data in zip(members, job.result(), strict=True):
            filled[recipe] = _filled(recipe, data, device)
    return filled


def _filled(recipe: Recipe, data: bytes, device: Any) -> Any:
    from metatensor._core.device import backend_for, concrete_device
    from metatensor._core.storage_views import tensor_from_storage

    target = recipe.device if device is None else concrete_device(device)
    backend = backend_for(target)
    storage = make_storage(target, len(data), backend.allocate(len(data), target.index or 0))
    if data:
        backend.from_host(tensor_from_storage(storage, mt.uint8, (len(data),), (1,)), data)
    return storage

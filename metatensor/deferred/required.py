"""The recorded steps that tensors need, found by walking backwards from the last step of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from metatensor._core.recording import Recipe, Ref, Step

__all__ = ["OVERWRITES", "groups_of", "overwrites", "read", "refs_of", "steps_for", "written"]

_NUMBER = attrgetter("number")

# Kernels that do not read the tensor that they overwrite.
OVERWRITES = frozenset((
    "zero", "fill", "copy", "copy_", "uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_", "random_",
    "random_.to", "random_.from", "bernoulli_",
))  # fmt: skip


def steps_for(recipes: Iterable[Recipe]) -> list[Step]:
    """Return the steps that compute the final contents of these recorded storages, in order."""
    return sorted((step for _, steps in groups_of(recipes) for step in steps), key=_NUMBER)


def written(step: Step) -> tuple[Ref, ...]:
    """Return the outputs that a step fills in, without the arguments that it modifies."""
    return () if step.result is None else step.result if isinstance(step.result, tuple) else (step.result,)


def overwrites(step: Step, recipe: Recipe) -> bool:
    """Return True if a step replaces the whole contents of a recorded storage without reading them."""
    if not any(ref.recipe is recipe and ref.covers() for ref in written(step)):
        return False
    sources = step.args[1:] if step.name in OVERWRITES else step.args
    return all(ref.recipe is not recipe for ref in refs_of(sources))


def read(step: Step) -> set[Recipe]:
    """Return the recorded storages whose contents a step reads. Partial writes count as reads."""
    args = step.args[1:] if step.name in OVERWRITES else step.args
    found = {ref.recipe for ref in refs_of(args)}
    return found | {ref.recipe for ref in written(step) if not ref.covers()}


def refs_of(value: Any) -> Iterator[Ref]:
    """Yield the recorded tensors among arguments or results."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from refs_of(item)


def groups_of(recipes: Iterable[Recipe]) -> list[tuple[list[Recipe], list[Step]]]:
    """Partition recorded storages into groups that have no steps in common.

    Return each group with its steps in order.
    """
    walk = _Walk()
    wanted = list(dict.fromkeys(recipes))
    for number, recipe in enumerate(wanted):
        walk.back(recipe, number)
    groups: dict[int, tuple[list[Recipe], list[Step]]] = {}
    for number, recipe in enumerate(wanted):
        groups.setdefault(walk.group(number), ([], []))[0].append(recipe)
    for step, number in walk.needed.items():
        groups[walk.group(number)][1].append(step)
    for _, steps in groups.values():
        steps.sort(key=_NUMBER)
    return list(groups.values())


class _Walk:
    """Collects steps backwards from the last one needed.

    Each step is visited once per recorded storage that it writes to.
    """

    def __init__(self) -> None:
        self.needed: dict[Step, int] = {}  # step -> the group that reached it first
        self.walked: dict[Recipe, dict[Step, int]] = {}
        self.merged: dict[int, int] = {}  # group -> the group that it was merged into

    def group(self, number: int) -> int:
        """Return the group into which group ``number`` has been merged."""
        while number in self.merged:
            above = self.merged[number]
            self.merged[number] = self.merged.get(above, above)
            number = above
        return number

    def _join(self, number: int, other: int) -> None:
        one, two = sorted((self.group(number), self.group(other)))
        if one != two:
            self.merged[two] = one

    def back(self, recipe: Recipe, number: int) -> None:
        """Collect the steps that compute a recorded storage, and assign them to group ``number``."""
        queue: list[tuple[Recipe, int | None]] = [(recipe, None)]
        while queue:
            recipe, before = queue.pop()
            walked = self.walked.setdefault(recipe, {})
            writers = recipe.writers
            last = len(writers) if before is None else bisect_left(writers, before, key=_NUMBER)
            for at in range(last - 1, -1, -1):
                step = writers[at]
                if step in walked:
                    self._join(number, walked[step])
                    break
                walked[step] = number
                if step in self.needed:
                    self._join(number, self.needed[step])
                else:
                    self.needed[step] = number
                    queue += [(other, step.number) for other in read(step)]
                if overwrites(step, recipe):
                    break

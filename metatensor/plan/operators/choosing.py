"""The choice of placements for all operators of a model, as an integer program.

For each call, variables say which of its strategies is taken. A value has the placements that the strategy of its call gives it. Where
another call needs other placements, a variable says from which ones they are made. The time of a step is minimized.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from time import monotonic
from typing import Any, NamedTuple

from metatensor._core.capture import Value
from metatensor.distributed.tensor import Partial, Replicate
from metatensor.plan.operators.capturing import Part
from metatensor.plan.operators.integer_program import Expression, IntegerProgram, Solution
from metatensor.plan.operators.strategies import Costs, Placements, Strategy, nbytes_of, placements_of_input
from metatensor.program.structure import leaves

__all__ = ["Choice", "Limits", "PlacedPart", "choose", "least_memory"]

ROUNDS = 4
"""Maximum number of times that the placements on each mesh dimension are chosen."""
LEAST = 5.0
"""Seconds that HiGHS gets even if less time is left."""


class Limits(NamedTuple):
    """What a rank may use, in bytes, and what its parameters take."""

    memory: int
    parameter_bytes: float
    """Bytes of a trainable parameter's element: the parameter, its gradient, the optimizer's state."""
    frozen_bytes: float
    update_seconds: float
    """Seconds of the optimizer for an element."""


@dataclass
class PlacedPart:
    """A part of a model with the placements of its operators."""

    part: Part
    strategies: list[Strategy]
    """The strategy of each call."""
    arguments: list[list[Value]]
    """The values that are the tensor arguments of each call."""
    parameters: dict[str, Placements]
    placements: dict[int, Placements]
    """The placements of each value, by number."""
    wanted: dict[int, Placements]
    """The placements in which the part returns its results, which may differ from those that their calls give them."""
    seconds: float = 0.0
    """Predicted time of one run on a rank."""
    communication: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    """The collectives of one run: kind, bytes and ranks."""


@dataclass
class Choice:
    """The placements of all operators of a model, and what they cost."""

    parts: list[PlacedPart]
    boundary: Placements | None
    """The placements of activations between parts."""
    seconds: float
    gap: float | None
    """Relative distance of the time to the proven lower bound. None for meshes of several dimensions."""
    memory: int
    """Bytes on a rank, of what `Limits` restricts."""
    variables: int


class _Kept:
    """What is kept of an earlier choice: the placements on all mesh dimensions but one. Without a choice, all is replicated there."""

    def __init__(self, dims: Sequence[int], choice: Choice | None) -> None:
        self.dims, self.choice = tuple(dims), choice
        self.parameters: dict[str, Placements] = {}
        if choice is not None:
            for placed in choice.parts:
                self.parameters.update({_path(placed.part, name): one for name, one in placed.parameters.items()})

    def agree(self, one: Placements, other: Placements | None) -> bool:
        """Return whether placements are those of the earlier choice on the dimensions that are kept."""
        return all(one[dim] == (Replicate() if other is None else other[dim]) for dim in self.dims)

    def strategies(self, found: list[Strategy], part: int, call: int) -> list[Strategy]:
        """Return those that agree with the strategy of the earlier choice."""
        if not self.dims:
            return found
        known = self.choice.parts[part].strategies[call] if self.choice is not None else None
        if known is None:
            return [one for one in found if all(self.agree(placed, None) for placed in (*one.inputs, *one.outputs))]
        return [one for one in found if len(one.outputs) == len(known.outputs)
                and all(map(self.agree, (*one.inputs, *one.outputs), (*known.inputs, *known.outputs)))]  # fmt: skip


def _path(part: Part, name: str) -> str:
    return f"{part.paths[0]}.{name}".lstrip(".")


class _Model:
    """The integer program of all parts."""

    def __init__(self, parts: list[Part], costs: Costs, limits: Limits, kept: _Kept) -> None:
        self.parts, self.costs, self.limits, self.kept = parts, costs, limits, kept
        self.program = IntegerProgram()
        self.whole: Placements = (Replicate(),) * costs.mesh.ndim
        self.memory: Expression = defaultdict(float)
        self.fixed = 0.0
        first = next((part.activation for part in parts if part.activation is not None), None)
        self.boundary: dict[Placements, int] = {}
        if first is not None:
            known = kept.choice.boundary if kept.choice is not None else None
            options = [one for one in placements_of_input(first.shape, costs.mesh.shape) if kept.agree(one, known)]
            self.boundary = dict(zip(options, self.program.choice([0.0] * len(options)), strict=True))
        self.parameters: dict[str, dict[Placements, int]] = {}
        self.calls: list[list[tuple[list[Strategy], list[Value], list[int]]]] = []
        for index, part in enumerate(parts):
            self._add(part, index)
        self.program.constrain(dict(self.memory), 0.0, max(0.0, limits.memory - self.fixed))

    # Variables ----------------------------------------------------------------------------------------------

    def parameter(self, part: Part, name: str) -> dict[Placements, int]:
        """Return the variables of a parameter's placements. Parts that share a parameter share them."""
        path = _path(part, name)
        if path not in self.parameters:
            value = part.parameters[name]
            trained = name in part.gradients
            known = self.kept.parameters.get(path)
            options = [one for one in placements_of_input(value.shape, self.costs.mesh.shape) if self.kept.agree(one, known)]
            elements = [nbytes_of(value, self.costs.mesh, one) / value.dtype.itemsize for one in options]
            update = self.limits.update_seconds if trained else 0.0
            found = self.program.choice([n * update * part.count for n in elements])
            each = self.limits.parameter_bytes if trained else self.limits.frozen_bytes
            for variable, n in zip(found, elements, strict=True):
                self.memory[variable] += n * each * part.count
            self.parameters[path] = dict(zip(options, found, strict=True))
        return self.parameters[path]

    def _add(self, part: Part, index: int) -> None:
        sources: dict[int, dict[Placements, Expression]] = {}
        for name, value in part.parameters.items():
            sources[value.number] = {one: {variable: 1.0} for one, variable in self.parameter(part, name).items()}
        for value in part.passed():
            sources[value.number] = {one: {variable: 1.0} for one, variable in self.boundary.items()}
        for value in part.known():
            sources[value.number] = {self.whole: {}}
        values = dict(part.program.values)
        uses: dict[tuple[int, bool], list[dict[Placements, Expression]]] = defaultdict(list)
        calls = []
        for i, (call, late) in enumerate(zip(part.program.calls, part.backward, strict=True)):
            producible = {number: set(placed) for number, placed in sources.items()}
            strategies, arguments = self.costs.strategies(call, producible)
            strategies = self.kept.strategies(strategies, index, i)
            chosen = self.program.choice([one.seconds * part.count for one in strategies])
            calls.append((strategies, arguments, chosen))
            for position, value in enumerate(arguments):
                uses[value.number, late].append(_grouped((one.inputs[position], x) for one, x in zip(strategies, chosen, strict=True)))
            for position, value in enumerate(leaves(Value, call.result)):
                sources[value.number] = _grouped((one.outputs[position], x) for one, x in zip(strategies, chosen, strict=True))
        self.calls.append(calls)
        for value, late, targets in self.ends(part):
            uses[value.number, late].append(targets)
        for (number, _), consumers in uses.items():
            self._changes(values[number], sources[number], consumers, part.count)
        self._saved(part, sources)

    def ends(self, part: Part) -> Iterable[tuple[Value, bool, dict[Placements, Expression]]]:
        """Yield the values that the part returns, whether they belong to the backward pass, and the placements that they need."""
        boundary = {one: {variable: 1.0} for one, variable in self.boundary.items()}
        if not part.ends:
            yield part.result, False, boundary
        for value in part.whole_results():
            yield value, False, {self.whole: {}}
        if part.activation_gradient is not None:
            yield part.activation_gradient, True, boundary
        for name, value in part.gradients.items():
            yield value, True, {one: {variable: 1.0} for one, variable in self.parameter(part, name).items()}
        for _, value in part.writes:
            yield value, False, {self.whole: {}}

    def _changes(
        self, value: Value, sources: dict[Placements, Expression], consumers: list[dict[Placements, Expression]], count: int
    ) -> None:
        """Add the changes of placements of a value in the forward or the backward pass. Each is made once."""
        for target in {one: None for consumer in consumers for one in consumer}:
            available: Expression = defaultdict(float)
            anything = False
            for source, present in sources.items():
                if not _is_considered(source, target):
                    continue
                seconds, _ = self.costs.change(value, source, target)
                if not seconds:
                    if not present:  # it is there in any case
                        anything = True
                        break
                    for variable, factor in present.items():
                        available[variable] += factor
                    continue
                change = self.program.variable(seconds * count, integral=False)
                available[change] += 1.0
                if present:
                    self.program.constrain({change: 1.0, **{v: -factor for v, factor in present.items()}}, -float("inf"), 0.0)
            if anything:
                continue
            for consumer in consumers:
                if target not in consumer:
                    continue
                terms: Expression = defaultdict(float)
                for variable, factor in available.items():
                    terms[variable] -= factor
                for variable, factor in consumer[target].items():
                    terms[variable] += factor
                fixed = 0.0 if consumer[target] else 1.0
                self.program.constrain(dict(terms), -float("inf"), -fixed)

    def _saved(self, part: Part, sources: dict[int, dict[Placements, Expression]]) -> None:
        """Count what the forward pass keeps for the backward pass, once for each storage."""
        seen = {value.storage for value in (*part.parameters.values(), *part.buffers.values())}
        for value in part.saved():
            if value.storage in seen:
                continue
            seen.add(value.storage)
            for placed, present in sources[value.number].items():
                nbytes = nbytes_of(value, self.costs.mesh, placed) * part.count
                if not present:
                    self.fixed += nbytes
                for variable, factor in present.items():
                    self.memory[variable] += factor * nbytes


def _is_considered(source: Placements, target: Placements) -> bool:
    """Return whether a change of placements is worth a variable.

    Shards are exchanged on one mesh dimension at a time. Otherwise a change replicates, reduces, or divides what is replicated.
    """
    changed = [(a, b) for a, b in zip(source, target, strict=True) if a != b and not isinstance(a, Replicate)]
    return len(changed) <= 1 or all(isinstance(a, Partial) or isinstance(b, Replicate) for a, b in changed)


def _grouped(pairs: Iterable[tuple[Placements, int]]) -> dict[Placements, Expression]:
    found: dict[Placements, Expression] = {}
    for placed, variable in pairs:
        found.setdefault(placed, {})[variable] = 1.0
    return found


def choose(parts: list[Part], costs: Costs, limits: Limits, seconds: float, gap: float) -> Choice | None:
    """Return the fastest placements within the limits, None if nothing fits.

    On a mesh of several dimensions, the placements on one of them are chosen while those on the others are kept. All dimensions take
    turns until the time no longer decreases. This is repeated with each dimension as the first, and the fastest result is returned.

    Parameters
    ----------
    parts : list of Part
        The parts of the model.
    costs : Costs
        What calls and changes of placements cost.
    limits : Limits
        The memory of a rank.
    seconds : float
        The time for HiGHS.
    gap : float
        The relative distance to the optimum at which it stops.
    """
    shape = costs.mesh.shape
    dims = [dim for dim, size in enumerate(shape) if size > 1] or [0]
    end = monotonic() + seconds
    best: Choice | None = None
    for start in range(len(dims)):
        found = _in_turn(parts, costs, limits, [*dims[start:], *dims[:start]], end, gap)
        if found is not None and (best is None or found.seconds < best.seconds):
            best = found
    return best


def least_memory(parts: list[Part], costs: Costs, limits: Limits, seconds: float) -> int | None:
    """Return the least memory of a rank, in bytes. None if it is not found in time, or the mesh has several dimensions."""
    if costs.mesh.ndim > 1:
        return None
    model = _Model(parts, costs, limits._replace(memory=1 << 62), _Kept((), None))
    model.program.costs = [model.memory.get(variable, 0.0) for variable in range(len(model.program.costs))]
    solution = model.program.solve(seconds, 1e-6)
    return None if solution is None else round(model.fixed + solution.objective)


def _in_turn(parts: list[Part], costs: Costs, limits: Limits, order: list[int], end: float, gap: float) -> Choice | None:
    """Choose the placements on one mesh dimension after the other, until nothing gets faster."""
    every, shape = range(costs.mesh.ndim), costs.mesh.shape
    choice: Choice | None = None
    open_ = prod(shape[dim] for dim in order)  # by how much the dimensions that come later may still divide the memory
    unchanged = 0
    for step in range(ROUNDS * len(order)):
        dim = order[step % len(order)]
        open_ = max(1, open_ // shape[dim]) if step < len(order) else 1
        kept = _Kept([one for one in every if one != dim], choice)
        found = _solved(parts, costs, limits._replace(memory=limits.memory * open_), kept, end - monotonic(), gap)
        if found is None:
            return None if step < len(order) or choice is None or choice.memory > limits.memory else choice
        better = choice is None or step < len(order) or found.seconds < choice.seconds * (1 - gap)
        unchanged = 0 if better else unchanged + 1
        if better:
            choice = found
        if len(order) == 1 or unchanged == len(order) - 1 or monotonic() > end and step >= len(order) - 1:
            break
    return choice if choice is not None and choice.memory <= limits.memory else None


def _solved(parts: list[Part], costs: Costs, limits: Limits, kept: _Kept, seconds: float, gap: float) -> Choice | None:
    model = _Model(parts, costs, limits, kept)
    solution = model.program.solve(max(seconds, LEAST), gap)
    if solution is None:
        return None
    boundary = list(model.boundary)[solution.chosen(model.boundary.values())] if model.boundary else None
    placed = [_placed(model, part, calls, boundary, solution) for part, calls in zip(parts, model.calls, strict=True)]
    memory = round(model.fixed + sum(solution.values[v] * n for v, n in model.memory.items()))
    return Choice(placed, boundary, solution.objective, None if kept.dims else solution.gap, memory, len(model.program.costs))


def _placed(model: _Model, part: Part, calls: Any, boundary: Placements | None, solution: Solution) -> PlacedPart:
    parameters = {}
    for name in part.parameters:
        options = model.parameter(part, name)
        parameters[name] = list(options)[solution.chosen(options.values())]
    placements: dict[int, Placements] = {value.number: parameters[name] for name, value in part.parameters.items()}
    for value in part.passed():
        assert boundary is not None
        placements[value.number] = boundary
    for value in part.known():
        placements[value.number] = model.whole
    taken: list[Strategy] = []
    for call, (strategies, _, chosen) in zip(part.program.calls, calls, strict=True):
        one = strategies[solution.chosen(chosen)]
        taken.append(one)
        for position, value in enumerate(leaves(Value, call.result)):
            placements[value.number] = one.outputs[position]
    wanted = {}
    for value, _, targets in model.ends(part):
        found = [one for one, terms in targets.items() if not terms or any(solution.values[v] > 0.5 for v in terms)]
        wanted[value.number] = found[0]
    made = PlacedPart(part, taken, [arguments for _, arguments, _ in calls], parameters, placements, wanted)
    _count(made, model)
    return made


def _count(placed: PlacedPart, model: _Model) -> None:
    """Add up the time and the collectives of one run, in the order in which `running` makes them."""
    made: set[tuple[int, bool, Placements]] = set()
    values = placed.part.program.values

    def change(value: Value, late: bool, target: Placements) -> None:
        key = value.number, late, target
        if placed.placements[value.number] == target or key in made:
            return
        made.add(key)
        seconds, communication = model.costs.change(values.get(value.number, value), placed.placements[value.number], target)
        placed.seconds += seconds
        placed.communication += communication

    for one, arguments, late in zip(placed.strategies, placed.arguments, placed.part.backward, strict=True):
        for value, target in zip(arguments, one.inputs, strict=True):
            change(value, late, target)
        placed.seconds += one.seconds
        placed.communication += one.communication
    for value, late, _ in model.ends(placed.part):
        change(value, late, placed.wanted[value.number])

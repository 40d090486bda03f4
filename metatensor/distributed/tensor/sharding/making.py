"""Make the table of sharding rules: try the axes of samples, and state what the outcomes have in common.

Each trial is an observation: the properties of the axis and of the call, and the joins that gave the whole, or None. The
rules of an overload are the shortest statement that agrees with all observations: axes with the same members have the
same outcome, or else a property of their position or an argument tells them apart. Axes whose outcomes cannot be told
apart have no rule.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from metatensor._core.op import operator_flags
from metatensor._core.schema import parse
from metatensor.distributed.tensor.sharding import features
from metatensor.distributed.tensor.sharding.axes import Axis, Shapes
from metatensor.distributed.tensor.sharding.joins import JOINS, REDUCTIONS
from metatensor.distributed.tensor.sharding.samples import samples_for
from metatensor.distributed.tensor.sharding.table import Cut, Pass, Rules
from metatensor.distributed.tensor.sharding.trying import Trial, gcd_of
from metatensor.testing.samples import Sample, Spec

__all__ = ["Observation", "cut_outcome", "make_rules", "observations", "pass_outcome", "sharded_overloads", "with_fine_values"]

# Operators that depend on strides, or whose outcomes depend on which indices are equal: they run on whole tensors. What operators
# return whose results are not initialized is by chance; their rules are stated beside them.
WITHOUT_RULES = frozenset("_from_host as_strided embedding_renorm_ index_reduce nn.functional.embedding_bag _embedding_bag "
                          "empty_like new_empty new_empty_strided".split())  # fmt: skip
SCALES = (1, 2, 3)  # the sizes of an axis that are tried, as multiples
LARGEST_UNITS = 12  # of an axis that is cut
LARGEST_PARTIAL = 3  # arguments that are partial together


class Observation(NamedTuple):
    """What the trials of one axis, or of one reduction of arguments, have shown.

    ``outcomes`` maps the arguments that have to be partial sums, mostly none, to the joins of each result. It is empty if nothing
    gives the whole.
    """

    key: tuple[Any, ...]
    properties: dict[str, Any]
    outcomes: dict[tuple[str, ...], tuple[frozenset[str], ...]]
    empty: bool = True


def sharded_overloads() -> Iterator[tuple[Any, Any]]:
    """Yield the operators, with each overload, that may have rules: those that return tensors and call no others."""
    from metatensor.testing.device_kernels import overloads

    for op, overload in overloads():
        returns = overload.text.rpartition("->")[2]
        mutates = any(one.mutated for one in parse(overload.text).arguments)
        if overload.is_composite or overload.is_host or overload.flags & operator_flags.DATA or overload.qualname in WITHOUT_RULES:
            continue
        if "Tensor" in returns or mutates:
            yield op, overload


# Observing ------------------------------------------------------------------------------------------------


def observations(op: Any, overload: Any, more: Iterable[Sample] = ()) -> tuple[list[Observation], list[Observation]]:
    """Return what trials of an overload's samples, and of ``more`` samples, show: of cuts, and of partial arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _observations(op, overload, (*samples_for(op, overload), *more))


def _observations(op: Any, overload: Any, samples: Iterable[Sample]) -> tuple[list[Observation], list[Observation]]:
    cuts: list[Observation] = []
    passes: list[Observation] = []
    sizes = features.size_arguments(overload.text)
    for sample in samples:
        trial = Trial(op, overload, sample, sizes)
        if trial.definite:  # the rounding of decompositions and solutions depends on the processor, and grows with their condition
            trial = trial.in_double()
        shapes = trial.shapes()
        results = trial.result_shapes(shapes)
        if results is None:
            continue
        chosen = dict(features.options(overload.text, sample.arguments))
        for axis in trial.axes():
            seen = _observe_cut(trial, axis, shapes, results, chosen)
            if seen is not None:
                cuts.append(seen)
        passes += _observe_passes(trial, chosen)
    return cuts, passes


def _observe_cut(trial: Trial, axis: Axis, shapes: Shapes, results: list[tuple[int, ...]], chosen: dict[str, Any]) -> Observation | None:
    names = features.members(trial.overload.text, trial.sample.arguments, axis, shapes)
    follow = tuple(dim >= 0 for dim in axis.outputs)
    if trial.returns_list:
        if len(set(follow)) > 1:
            return None
        follow = follow[:1]
    key = (names, follow)
    properties = features.position(axis, shapes, results) | chosen
    attempts = Attempts(trial, axis)
    outcome = attempts.outcome(())
    if outcome == ():
        return None
    outcomes: dict[tuple[str, ...], tuple[frozenset[str], ...] | None] = {(): outcome}
    if outcome is None or any("cat" not in one for one in outcome):
        for partial in _summands(trial, axis):
            outcomes[partial] = attempts.outcome(partial)
            if outcome is None and outcomes[partial]:
                break
    working = {partial: joins for partial, found in outcomes.items() if found and (joins := _one_for_all(trial, found))}
    empty = all(_empty_parts(trial, axis, partial, joins) for partial, joins in list(working.items())[:1])
    return Observation(key, properties, working, empty)


def _one_for_all(trial: Trial, outcome: tuple[frozenset[str], ...]) -> tuple[frozenset[str], ...] | None:
    """Return the joins that all results in a list have in common. Other results have joins of their own."""
    if not trial.returns_list or not outcome:
        return outcome
    common = frozenset.intersection(*outcome)
    return (common,) if common else None


class Attempts:
    """The calls by which cutting an axis is tried: at several sizes, each with several kinds of values.

    They are made when they are needed, and serve all sets of partial arguments.
    """

    def __init__(self, trial: Trial, axis: Axis) -> None:
        self._calls = self._made(trial, axis)
        self._known: list[tuple[Axis, Trial]] = []

    def _made(self, trial: Trial, axis: Axis) -> Iterator[tuple[Axis, Trial]]:
        for scale in SCALES:
            larger = axis._replace(places=tuple(place._replace(size=place.size * scale) for place in axis.places))
            if not 2 <= gcd_of(larger) <= LARGEST_UNITS * (scale == 1) + LARGEST_UNITS:
                continue
            made = trial.resized(trial.shapes().scaled(axis.places, scale)) if scale > 1 else trial
            for one in _with_values(made, scale):
                whole = one.whole()
                if whole is not None and any(result.size for result in whole[1]):
                    yield larger, one

    def __iter__(self) -> Iterator[tuple[Axis, Trial]]:
        number = 0
        while number < len(self._known) or self._more():
            yield self._known[number]
            number += 1

    def _more(self) -> bool:
        found = next(self._calls, None)
        if found is not None:
            self._known.append(found)
        return found is not None

    def outcome(self, partial: tuple[str, ...]) -> tuple[frozenset[str], ...] | None:
        """Return for each result the joins that give the whole at all sizes and for all values.

        The tuple is empty if no call could be made. None if a result has no such join.
        """
        found: list[set[str]] | None = None
        for larger, one in self:
            for parts in _splits(gcd_of(larger)):
                got = one.cut(larger, parts, partial)
                if got is None:
                    return None
                if not got:
                    continue
                found = got if found is None else [a & b for a, b in zip(found, got, strict=True)]
                if not all(found):
                    return None
        return tuple(map(frozenset, found or ()))


def cut_outcome(trial: Trial, axis: Axis, partial: tuple[str, ...]) -> tuple[frozenset[str], ...] | None:
    """Return what `Attempts.outcome` does for one set of partial arguments."""
    return Attempts(trial, axis).outcome(partial)


def _splits(units: int) -> list[tuple[int, ...]]:
    """Return uneven divisions of a number of units."""
    return [(units - 1, 1)] if units < 4 else [(units - 1, 1), (1, 2, units - 3)]


def _empty_parts(trial: Trial, axis: Axis, partial: tuple[str, ...], outcome: tuple[frozenset[str], ...]) -> bool:
    """Return True if parts may be empty."""
    units = gcd_of(axis)
    if units < 2:
        return False
    for parts in ((units, 0), (units - 1, 1, 0)):
        got = trial.cut(axis, parts, partial)
        if got == []:
            continue
        if got is None or not all(one & other for one, other in zip(got, _for_each(trial, outcome, len(got)), strict=True)):
            return False
    return True


def _for_each(trial: Trial, outcome: tuple[frozenset[str], ...], count: int) -> tuple[frozenset[str], ...]:
    return outcome * count if trial.returns_list else outcome


def _summands(trial: Trial, axis: Axis) -> Iterator[tuple[str, ...]]:
    """Yield sets of arguments that are not cut, and may have to be partial sums."""
    cut = {place.name for place in axis.places}
    names = [name for name, value in trial.sample.arguments.items() if name not in cut and isinstance(value, Spec)]
    for count in range(1, min(len(names), 2) + 1):
        yield from itertools.combinations(names, count)


def _with_values(trial: Trial, scale: int) -> Iterator[Trial]:
    """Yield the call with values of the kinds that are tried at a scale."""
    floating = any(spec.dtype.startswith("float") for _, spec in trial.sample.specs())
    if scale == 1:
        yield trial
    elif scale == 2:
        if not floating:
            yield trial.with_values(role="ties")
        else:
            yield trial.with_values("float64", None if trial.definite else "fine")
    elif floating and not trial.definite:
        yield trial.with_values("float64", "special")
        yield trial.with_values("float64", "ties")
    else:
        yield trial


def _observe_passes(trial: Trial, chosen: dict[str, Any]) -> Iterator[Observation]:
    fine = with_fine_values(trial)
    if fine is None:
        return
    names = [name for name, value in fine.sample.arguments.items() if _is_partial(value)]
    for count in range(1, min(len(names), LARGEST_PARTIAL) + 1):
        for group in itertools.combinations(names, count):
            for reduction in REDUCTIONS:
                got = pass_outcome(trial, fine, group, reduction)
                if got != []:
                    joins = None if got is None or not fine.passes_kind(got) else _one_for_all(trial, tuple(map(frozenset, got)))
                    yield Observation((group, reduction), chosen, {(): joins} if joins else {})


def with_fine_values(trial: Trial) -> Trial | None:
    """Return the call with values that show much, or as it is if these do not suit it. None if it fails."""
    fine = trial.with_values("float64", None if trial.definite else "fine")
    return next((one for one in (fine, trial) if one.whole() is not None), None)


def pass_outcome(trial: Trial, fine: Trial, group: tuple[str, ...], reduction: str) -> list[set[str]] | None:
    """Return what `Trial.passes` does for the values of ``fine``, confirmed by other values where a result seems not to depend
    on the arguments."""
    got = fine.passes(group, reduction)
    return _confirmed(trial, group, reduction, got) if got and any("same" in one for one in got) else got


def _confirmed(trial: Trial, group: tuple[str, ...], reduction: str, got: list[set[str]]) -> list[set[str]] | None:
    """Return the outcome without "same", unless the results do not depend on the arguments for values with ties, either."""
    again = trial.with_values(role="ties").passes(group, reduction)
    sure = again and len(again) == len(got)
    left = [one if sure and again and "same" in again[number] else one - {"same"} for number, one in enumerate(got)]
    return left if all(left) else None


def _is_partial(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_partial, value))
    return isinstance(value, Spec) and value.dtype.startswith(("float", "complex"))


# Stating rules ----------------------------------------------------------------------------------------------


def make_rules(op: Any, overload: Any, more: Iterable[Sample] = ()) -> Rules:
    """Return the rules of an overload, found by trying its samples and ``more`` samples."""
    if overload.flags & operator_flags.RANDOM:
        return Rules()
    cuts, passes = observations(op, overload, more)
    return Rules(tuple(_cut_rules(overload, cuts)), tuple(_pass_rules(overload, passes)))


def _cut_rules(overload: Any, seen: list[Observation]) -> Iterator[Cut]:
    groups: dict[Any, list[Observation]] = defaultdict(list)
    for one in seen:
        groups[one.key].append(one)
    told = _told(seen)
    for (names, _follow), group in sorted(groups.items(), key=str):
        for where, part in _told_apart(group, features.POSITIONS):
            found = _common(part)
            if found is not None and all(_is_general(overload, name, value) for name, value in where):
                partial, joins = found
                if any(_shows_nothing(one) and number in told for number, one in enumerate(joins)):
                    continue
                order = ("cat", *JOINS)
                yield Cut(names, tuple(min(one, key=order.index) for one in joins), where, partial, not all(one.empty for one in part))


def _shows_nothing(joins: frozenset[str]) -> bool:
    """Return True if results and parts were all 0, NaN or infinite: then they are both their sum and alike."""
    return "same" in joins and "sum" in joins


def _told(seen: Iterable[Observation]) -> set[int]:
    """Return the positions of the results for which some outcome shows how they are joined, unless they are concatenated."""
    return {number for one in seen for joins in one.outcomes.values() for number, found in enumerate(joins)
            if "cat" not in found and not _shows_nothing(found)}  # fmt: skip


def _pass_rules(overload: Any, seen: list[Observation]) -> Iterator[Pass]:
    groups: dict[Any, list[Observation]] = defaultdict(list)
    for one in seen:
        groups[one.key].append(one)
    ignored = {names[0] for (names, _), group in groups.items() if len(names) == 1 and (found := _common(group)) and
               all("same" in one for one in found[1])}  # fmt: skip
    for (names, reduction), group in sorted(groups.items(), key=str):
        if len(names) > 1 and ignored.intersection(names):
            continue
        for where, part in _told_apart(group, ()):
            found = _common(part)
            if found is not None and all(_is_general(overload, name, value) for name, value in where):
                results = found[1]
                order = ("same", reduction, *REDUCTIONS)
                yield Pass(names, reduction, tuple(min(one, key=order.index) for one in results), where)


def _is_general(overload: Any, name: str, value: Any) -> bool:
    """Return True if a rule may depend on a property: one of position, a length, a word, a flag, or a number that is the default."""
    if name in features.POSITIONS or name.endswith(features.LENGTH):
        return True
    argument = next(one for one in parse(overload.text).arguments if one.name == name)
    if isinstance(value, tuple) and value and all(isinstance(one, bool) for one in value):
        return True
    return isinstance(value, (bool, str)) or (not argument.required and features.plain(argument.default) == value)


def _common(seen: Sequence[Observation]) -> tuple[tuple[str, ...], tuple[frozenset[str], ...]] | None:
    """Return the arguments that have to be partial and the joins that all observations have in common, or None."""
    for partial in seen[0].outcomes:
        found = [one.outcomes.get(partial) for one in seen]
        first = found[0]
        if first is not None and all(one is not None and len(one) == len(first) for one in found):
            joins = tuple(frozenset.intersection(*each) for each in zip(*(one for one in found if one is not None)))
            if joins and all(joins):
                return partial, joins
    return None


def _told_apart(group: list[Observation], positions: tuple[str, ...]) -> list[tuple[tuple[tuple[str, Any], ...], list[Observation]]]:
    """Divide observations by as few properties as possible, so that the outcomes within each part agree."""
    names = [*positions, *sorted({name for one in group for name in one.properties} - set(features.POSITIONS))]
    varying = [name for name in names if len({repr(one.properties.get(name)) for one in group}) > 1]
    best: tuple[int, list[Any]] | None = None
    for chosen in _choices(varying, positions):
        parts: dict[Any, list[Observation]] = defaultdict(list)
        for one in group:
            parts[tuple((name, one.properties.get(name)) for name in chosen)].append(one)
        mixed = sum(len(part) for part in parts.values() if not _agree(part))
        if best is None or mixed < best[0]:
            best = mixed, list(parts.items())
        if not mixed:
            break
    return best[1] if best else []


def _choices(varying: list[str], positions: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield ()
    yield from ((name,) for name in varying)
    yield from itertools.combinations(varying, 2)


def _agree(part: list[Observation]) -> bool:
    return not any(one.outcomes for one in part) or _common(part) is not None


def make_table(more: Mapping[str, Iterable[Sample]] = MappingProxyType({})) -> dict[str, Rules]:
    """Return the rules of all overloads that have any, found by trying. ``more`` has more samples by qualified name."""
    import metatensor.nn.functional  # noqa: F401, defines operators

    made = {overload.qualname: make_rules(op, overload, more.get(overload.qualname, ())) for op, overload in sharded_overloads()}
    return {name: found for name, found in made.items() if found}

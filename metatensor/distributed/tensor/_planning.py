"""How an operator runs on distributed tensors: which arguments are redistributed, and how the results are placed.

The result of `plan_distributed` is kept, so that the next call with arguments that are placed in the same way needs only
a look-up. What it chooses is also kept for other meshes of the same shape, such as those of the other ranks of a simulation. On each
mesh dimension, the plan chooses among the ways that the sharding rules of the operator allow the one
that moves the fewest bytes. Running on whole tensors is always possible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.nested import map_tensors
from metatensor._core.nested import tensors_in as nested_tensors
from metatensor._core.op import operator_flags
from metatensor._core.sharded import Plan, adopt, in_body, quietly, values_matter, wrap
from metatensor._core.tensor import Tensor
from metatensor.distributed.tensor._communicating import Inside, inside_ways, run_inside
from metatensor.distributed.tensor._moving import is_cut, is_exchanged, lengths, local_shape, part_shape
from metatensor.distributed.tensor._running import _call, run_moved
from metatensor.distributed.tensor._strided import strided_shards
from metatensor.distributed.tensor.placement_types import DTensorSpec, Partial, Placement, Replicate, Shard, _StridedShard, interned
from metatensor.distributed.tensor.sharding import Cut, Pass, Rules, features, rules_of
from metatensor.distributed.tensor.sharding.axes import Axis, Shapes, find_axes
from metatensor.rules.gradients import losses

__all__ = ["CallOnMesh", "Way", "plan_distributed", "prepare_distributed"]

Key = tuple[str, int]  # name of an argument, and position in a list of tensors or -1


class Way(NamedTuple):
    """How a call runs on one mesh dimension.

    ``inputs`` gives the placement of each tensor argument; those that it lacks are replicated, or kept if the operator does
    not read them. ``mean`` says that the results are means over ``axis``. ``inside`` says that the call communicates inside.
    """

    inputs: Mapping[Key, Placement]
    outputs: tuple[Placement, ...]
    axis: Axis | None = None
    mean: bool = False
    rule: Cut | Pass | None = None
    inside: Inside | None = None


class CallOnMesh:
    """A call with distributed tensors, in terms of whole tensors."""

    def __init__(self, op: Any, overload: Any, names: Sequence[str], values: Sequence[Any], variant: int, out: Any) -> None:
        self.op, self.variant, self.out = op, variant, out
        self.functional = op.functional
        self.overload = self.functional.overloads[op.overloads.index(overload)]
        self.text = self.overload.text
        self.arguments = dict(zip(names, values))
        self.tensors: dict[Key, Any] = {}
        for name, value in self.arguments.items():
            for item, one in enumerate(value) if isinstance(value, list) else ((-1, value),):
                if isinstance(one, Tensor):
                    self.tensors[name, item] = one
        self.specs = {key: one._spec for key, one in self.tensors.items() if _is_distributed(one)}
        outs = out if isinstance(out, (tuple, list)) else () if out is None else (out,)
        self.mesh = next(one._spec.mesh for one in (*self.tensors.values(), *outs) if _is_distributed(one))
        self.fixed: dict[str, Any] = {}
        """Arguments that differ from those of the call, on all ranks."""
        self.sizes: list[tuple[int, ...]] = []
        """The shapes of the results."""
        if self.functional.name == "squeeze":
            self._name_dims()
        elif self.functional.name == "view" and -1 in (size := self.arguments.get("size", ())):
            known = -prod(size) or 1
            self.arguments["size"] = type(size)(self.arguments["input"].numel() // known if n == -1 else n for n in size)
        self.mutated = features.written_arguments(self.text)
        self.rules = rules_of(self.overload.qualname)
        self.kept = self.rules.kept
        self.in_place = variant == 1
        self.only_meta = False
        """Whether all tensors are on meta."""
        self._check(outs)

    def _check(self, outs: Sequence[Any]) -> None:
        name = self.op.name
        for spec in self.specs.values():
            if spec.mesh is not self.mesh and spec.mesh != self.mesh:
                raise RuntimeError(f"{name}(): the arguments are on different meshes, {self.mesh} and {spec.mesh}")
        if any(not _is_distributed(one) for one in outs):
            raise RuntimeError(f"{name}(): the arguments are DTensors, but out= is a plain tensor")

    def _name_dims(self) -> None:
        """Let `squeeze` remove the dimensions that have size 1 in the whole tensor, whatever sizes the parts have."""
        tensor = self.arguments["input"]
        dims = self.arguments.get("dim", tuple(range(tensor.dim())))
        chosen = {dim % max(tensor.dim(), 1) for dim in (dims if isinstance(dims, tuple) else (dims,))}
        self.overload = next(one for one in self.functional.overloads if one.qualname == "squeeze.dims")
        self.text = self.overload.text
        self.fixed = {"dim": tuple(dim for dim in sorted(chosen) if dim < tensor.dim() and tensor.shape[dim] == 1)}
        self.arguments.update(self.fixed)

    @property
    def is_random(self) -> bool:
        """Whether the call draws random numbers. Attention with a dropout of 0 does not; it counts if it has sharding rules."""
        if not self.overload.flags & operator_flags.RANDOM:
            return False
        return self.arguments.get("dropout_p") != 0.0 or not self.rules

    def target(self, key: Key, way: Way, dim: int) -> Placement:
        """Return the placement that a tensor argument needs on a mesh dimension on which the call runs in ``way``."""
        if key[0] in self.kept and key in self.specs:
            return self.specs[key].placements[dim]  # type: ignore[no-any-return]
        return way.inputs.get(key, Replicate())

    # On meta ----------------------------------------------------------------------

    def shapes(self) -> Shapes:
        """Return the sizes of the whole tensors, and the numbers that may be sizes."""
        tensors = {key: tuple(one.shape) for key, one in self.tensors.items()}
        numbers = {name: self.arguments[name] for name in features.size_arguments(self.text) if _is_sizes(self.arguments.get(name))}
        return Shapes(tensors, numbers)

    def results(self, shapes: Shapes) -> list[Any] | None:
        """Return the results of the call with other sizes, as tensors on meta, or None if it is refused."""
        try:
            return self.on_meta(self.new_tensors(shapes.tensors), shapes.numbers)
        except Exception:
            return None

    def new_tensors(self, shapes: Mapping[Key, tuple[int, ...]]) -> dict[Key, Any]:
        """Return tensors on meta with the dtypes of the arguments and other shapes."""
        return {key: mt.empty(shape, dtype=self.tensors[key].dtype, device="meta") for key, shape in shapes.items()}

    def on_meta(self, tensors: Mapping[Key, Any], numbers: Mapping[str, Any]) -> list[Any]:
        """Call the operator on meta. Return the tensors that it returns, then the arguments that it changes."""
        arguments = dict(self.arguments) | dict(numbers)
        if "device" in arguments and arguments["device"] is not None:
            arguments["device"] = mt.device("meta")
        arguments.pop("generator", None)
        for (name, item), tensor in tensors.items():
            if item < 0:
                arguments[name] = tensor
            else:
                arguments[name] = [*arguments[name][:item], tensor, *arguments[name][item + 1 :]]
        if "inplace" in arguments:
            arguments["inplace"] = False
        return self.outputs(call_by_slots(self.functional, self.text, arguments), arguments)

    def outputs(self, result: Any, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the tensors in a result, then the arguments that the call changes and does not return."""
        found = tensors_in(result)
        for name in self.mutated:
            found += [one for one in tensors_in(arguments.get(name)) if all(one is not other for other in found)]
        return found

    def whole_results(self) -> list[Any]:
        """Return the results of the call on whole tensors, on meta."""
        return self.on_meta({key: mt.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
                             for key, one in self.tensors.items()}, {})  # fmt: skip


def call_by_slots(op: Any, text: str, arguments: Mapping[str, Any]) -> Any:
    """Call an operator with arguments by name, passing by position those that may be."""
    positional, keywords = [], {}
    for one in features.schema(text).arguments:
        if one.name not in arguments:
            continue
        if one.kwonly:
            keywords[one.name] = arguments[one.name]
        else:
            positional.append(arguments[one.name])
    return op(*positional, **keywords)


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors in a result."""
    if isinstance(value, Tensor):
        return [value]
    return [one for member in value for one in tensors_in(member)] if isinstance(value, (list, tuple)) else []


def _is_distributed(value: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(getattr(value, "_spec", None), DTensorSpec)


def _is_sizes(value: Any) -> bool:
    return type(value) is int or (isinstance(value, tuple) and bool(value) and all(type(one) is int for one in value))


_implicit = local()  # simulated ranks are threads
_OWN = str(Path(mt.__file__).parent)


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Context manager in which plain tensors that meet distributed ones count as replicated."""
    was, _implicit.on = getattr(_implicit, "on", False), True
    try:
        yield
    finally:
        _implicit.on = was


def check_mixed(op: Any, values: Sequence[Any]) -> None:
    """Raise RuntimeError for a plain tensor among distributed ones, unless the library itself has made it.

    Its values could differ between processes, which would not be noticed.
    """
    if getattr(_implicit, "on", False) or in_body() or sys._getframe(1).f_code.co_filename.startswith(_OWN):
        return
    one = next(one for one in values if isinstance(one, Tensor) and not _is_distributed(one) and one.dim())
    raise RuntimeError(
        f"{op.name}(): a plain tensor of shape {list(one.shape)} is given together with a DTensor; convert it with distribute_tensor or "
        "DTensor.from_local, or use implicit_replication()"
    )


# The ways to run a call ---------------------------------------------------------------------------------------


def prepare_distributed(overload: Any) -> None:
    """Tell the core which numbers matter to the plans of an overload: those that its rules name."""
    found = rules_of(_functional_name(overload))
    conditions = [one.where for one in found.cuts] + [one.where for one in found.passes]
    values_matter(overload, {name for where in conditions for name, _ in where})


def _functional_name(overload: Any) -> str:
    op = overload.op
    return str(op.functional.overloads[op.overloads.index(overload)].qualname)


def ways(call: CallOnMesh, results: list[Any]) -> Iterator[Way]:
    """Yield the ways to run a call on a mesh dimension. The first uses whole tensors."""
    yield Way({}, (Replicate(),) * len(results))
    yield from (Way(one.inputs, one.outputs, inside=one) for one in inside_ways(call, results))
    rules = call.rules
    if not rules:
        return
    chosen = dict(features.options(call.text, call.arguments))
    several = call.text.endswith("-> Tensor[]")
    for rule in rules.passes:
        members = [key for key in call.tensors if key[0] in rule.members]
        if {name for name, _ in members} == set(rule.members) and rule.holds(chosen):
            kinds = rule.results * len(results) if several else rule.results
            if len(kinds) == len(results) and _can_pass(call, members, results):
                outputs = tuple(Replicate() if kind == "same" else Partial(kind) for kind in kinds)
                yield Way(dict.fromkeys(members, Partial(rule.reduction)), outputs, rule=rule)
    if not rules.cuts:
        return
    shapes = call.shapes()

    def result_shapes(changed: Shapes) -> list[tuple[int, ...]] | None:
        found = call.results(changed)
        return None if found is None else [tuple(one.shape) for one in found]

    whole = [tuple(one.shape) for one in results]
    for axis in find_axes(shapes, result_shapes):
        names = features.members(call.text, call.arguments, axis, shapes)
        properties = features.position(axis, shapes, whole) | chosen
        for cut in rules.cuts:
            joins = cut.joins * len(results) if several else cut.joins
            if cut.members != names or len(joins) != len(results) or not cut.holds(properties):
                continue
            if any((join == "cat") != (dim >= 0) for join, dim in zip(joins, axis.outputs)):
                continue
            yield _way_of_cut(call, axis, cut, joins, results)
            break


def strided_ways(call: CallOnMesh) -> Iterator[Way]:
    """Yield the ways in which a view keeps the parts although they are several runs of the result, or of the argument."""
    size = call.arguments.get("size")
    if call.functional.name in ("view", "_unsafe_view") and isinstance(size, (tuple, list)):
        for source, target, axis in strided_shards(tuple(call.tensors["input", -1].shape), call.sizes[0]):
            yield Way({("input", -1): source}, (target,), axis, rule=Cut(("input", "size()"), ("cat",)))


def _can_pass(call: CallOnMesh, members: Sequence[Key], results: Sequence[Any]) -> bool:
    """Return True unless a fractional result depends on integers, which may be indices. The rules were found with floats."""
    whole = [key for key in members if not _has_fraction(call.tensors[key].dtype)]
    return not whole or not any(_has_fraction(one.dtype) for one in results)


def _has_fraction(dtype: Any) -> bool:
    return bool(dtype.is_floating_point or dtype.is_complex)


_PLACED = {"sum": Partial("sum"), "mean": Partial("avg"), "max": Partial("max"), "min": Partial("min"), "product": Partial("product"),
           "same": Replicate()}  # fmt: skip


def _way_of_cut(call: CallOnMesh, axis: Axis, rule: Cut, joins: Sequence[str], results: Sequence[Any]) -> Way:
    inputs: dict[Key, Placement] = {(place.name, place.item): Shard(place.dim) for place in axis.dims}
    inputs |= {key: Partial("sum") for key in call.tensors if key[0] in rule.partial}
    outputs = tuple(Shard(dim) if join == "cat" else _PLACED[join] for join, dim in zip(joins, axis.outputs))
    if call.functional.name == "any" and results[0].dtype is mt.uint8:  # the rule is that of booleans, whose sum is their maximum
        outputs = tuple(Partial("max") if one == Partial("sum") else one for one in outputs)
    return Way(inputs, outputs, axis, "mean" in joins, rule)


# Choosing -----------------------------------------------------------------------------------------------------


def _cost(nbytes: float, size: int, source: Placement, target: Placement) -> float:
    """Return the bytes that a process sends to change a placement on a mesh dimension of ``size``."""
    if source == target or size == 1 or isinstance(source, Replicate):
        return 0.0
    share = nbytes * (size - 1) / size
    if isinstance(source, Partial):
        return share if isinstance(target, Shard) else 2 * share
    if is_cut(target) and not is_exchanged(source, target):
        return share
    return share / size if is_cut(target) else share


def choose(call: CallOnMesh, found: Sequence[Way], dim: int, chosen: Sequence[Way]) -> Way:
    """Return the cheapest way on a mesh dimension, given those chosen for the mesh dimensions before it."""
    size = call.mesh.size(dim)
    best: tuple[tuple[float, int, int], Way] | None = None
    for number, given in enumerate(found):
        way = next((one for one in (_as_strided(call, given, dim), given) if _fits(call, one, dim, chosen)), None)
        if way is None:
            continue
        cost, changed = 0.0, 0
        for key, tensor in call.tensors.items():
            target = call.target(key, way, dim)
            source = call.specs[key].placements[dim] if key in call.specs else Replicate()
            if source != target:
                changed += 1
                nbytes = prod(tensor.shape) * tensor.dtype.itemsize / _other_shards(call, key, dim)
                cost += _cost(nbytes, size, source, target)
        cost += _cost_of_results(call, way, dim)
        if way.inside is not None:
            cost += 2.0 * way.inside.nbytes
        key_ = (cost, changed, number)
        if best is None or key_ < best[0]:
            best = key_, way
    assert best is not None
    return best[1]


def _other_shards(call: CallOnMesh, key: Key, dim: int) -> int:
    if key not in call.specs:
        return 1
    return prod(call.mesh.size(other) for other, one in enumerate(call.specs[key].placements) if other != dim and is_cut(one))


def _written(call: CallOnMesh) -> list[tuple[int, Any]]:
    """Return pairs of a result's position and the distributed tensor that it is written to."""
    if call.in_place:
        return [(0, next(iter(call.tensors.values())))]
    if call.out is not None:
        return list(enumerate(call.out if isinstance(call.out, (tuple, list)) else (call.out,)))
    if call.mutated:
        results = [one for name in call.mutated for one in tensors_in(call.arguments.get(name))]
        return [(-len(results) + position, one) for position, one in enumerate(results)]
    return []


def _cost_of_results(call: CallOnMesh, way: Way, dim: int) -> float:
    """Return the cost of moving results to the placements of the tensors that they are written to."""
    total = 0.0
    for position, target in _written(call):
        if _is_distributed(target):
            wanted = target._spec.placements[dim]
            source = way.outputs[position]
            nbytes = prod(target.shape) * target.dtype.itemsize
            total += _cost(nbytes, call.mesh.size(dim), source, wanted) + (source != wanted) * 1e-3
    return total


def _as_strided(call: CallOnMesh, way: Way, dim: int) -> Way:
    """Return a way with strided shards if all arguments that it cuts have the same ones already, or are replicated."""
    if way.axis is None:
        return way
    factors = set()
    for key, target in way.inputs.items():
        if isinstance(target, Shard):
            source = call.specs[key].placements[dim] if key in call.specs else Replicate()
            if isinstance(source, Replicate):
                continue  # each process takes the part that it needs
            strided = isinstance(source, _StridedShard) and source.dim == target.dim
            factors.add(source.split_factor if strided and isinstance(source, _StridedShard) else 0)
    if len(factors) != 1 or factors == {0} or len({place.size for place in way.axis.places}) > 1:
        return way
    (factor,) = factors
    change = lambda one: _StridedShard(one.dim, split_factor=factor) if isinstance(one, Shard) else one
    return way._replace(inputs={key: change(one) for key, one in way.inputs.items()}, outputs=tuple(map(change, way.outputs)))


def _fits(call: CallOnMesh, way: Way, dim: int, chosen: Sequence[Way]) -> bool:
    """Return True if the shards of all places of the axis correspond, and none is empty if the rule forbids it."""
    if way.axis is None:
        return True
    pieces = call.mesh.size(dim)
    for size, other in zip(call.mesh.shape, chosen):
        if other.axis is not None and set(other.axis.places) & set(way.axis.places):
            if other.axis != way.axis and (_merges(other) or _merges(way)):
                return False  # how many runs a part has would depend on the other dimension's parts
            pieces *= size
    sizes = {place.size for place in way.axis.places}
    sizes |= {call.sizes[position][out] for position, out in enumerate(way.axis.outputs) if out >= 0}
    if len(sizes) > 1 and any(size % pieces for size in sizes):
        return False
    whole_parts = isinstance(way.rule, Cut) and way.rule.whole_parts
    if not (whole_parts or way.mean):
        return True
    runs = max((one.split_factor for one in way.inputs.values() if isinstance(one, _StridedShard)), default=1)
    return all(size % (pieces * runs) == 0 or (runs == 1 and not way.mean and min(lengths(size, pieces)) > 0) for size in sizes)


def _merges(way: Way) -> bool:
    """Return True if a way merges a sharded dimension into outer ones, or splits it off."""
    strided = [any(isinstance(one, _StridedShard) for one in placements) for placements in (way.inputs.values(), way.outputs)]
    return strided[0] != strided[1]


# Plans --------------------------------------------------------------------------------------------------------


class _Choice(NamedTuple):
    """What a plan needs that is the same on all meshes of a shape: the ways that were chosen, the results on meta, and the rules used."""

    ways: list[Way]
    results: list[Any]
    rules: Rules


_MOST_CHOICES = 20_000  # then they are forgotten
_choices: dict[Any, _Choice] = {}


@cache
def _scalar(dtype: Any) -> Any:
    return mt.empty((), dtype=dtype, device="meta")


def _without_data(t: Any) -> Any:
    """Return a tensor like another one without its graph, and if it is distributed, without data. Values of plain tensors may matter."""
    return wrap(_scalar(t.dtype).expand(t._local_tensor.shape), t._spec) if _is_distributed(t) else t.detach()


def plan_distributed(op: Any, overload: Any, names: list[str], values: list[Any], variant: int, out: Any, key: Any) -> Plan:
    """Return the `Plan` of a call. Called by the core for the first call of its kind on a mesh.

    ``key`` is the same for such calls on all meshes of a shape.
    """
    # Plans live as long as their mesh, and must not keep what the arguments of the first call hold.
    less, out = quietly(map_tensors, _without_data, (list(values), out))
    call = CallOnMesh(op, overload, names, less, variant, out)
    call.only_meta = all(one.device.type == "meta" for value in values for one in nested_tensors(value))
    return quietly(_plan, call, key)  # type: ignore[no-any-return]


def _plan(call: CallOnMesh, key: Any) -> Plan:
    if call.overload.qualname in _BY_PARTS and call.arguments.get("size_average") is None and call.arguments.get("reduce") is None:
        return Plan(python=lambda values, out: _BY_PARTS[call.overload.qualname](*values))
    if not tensors_returned(call):
        return Plan(python=lambda values, out: run_whole(call, values))
    if call.arguments.get("max_norm") is not None and "weight" in call.arguments:
        return Plan(python=lambda values, out: with_rows_scaled(call, values))
    if call.in_place and call.overload.is_view:
        return Plan(python=lambda values, out: view_in_place(call, values))
    if call.functional.name in _LAID_OUT:
        run = lambda arguments: _call(call, {**arguments, "input": _laid_out(arguments["input"], call.specs.get(("input", -1)))})
        why = f"{call.op.name}: no sharding rule"
        return Plan(python=lambda values, out: run_moved(call, {}, (), {}, why, values, out, _written(call), run))
    if call.is_random:
        return Plan(python=random_call(call))
    if call.overload.flags & operator_flags.DATA:
        return Plan(python=lambda values, out: run_moved(call, {}, (), {}, None, values, out, _written(call)))
    choice = _choices.get(key)
    if choice is not None and choice.rules == call.rules:
        call.sizes = [tuple(one.shape) for one in choice.results]
        return _of_ways(call, choice.ways, choice.results)
    try:
        results = call.whole_results()
    except mt.DataDependentError:
        reason = f"{call.op.name}: the result depends on values"
        return Plan(python=lambda values, out: run_moved(call, {}, (), {}, reason, values, out, _written(call)))
    call.sizes = [tuple(one.shape) for one in results]
    found = [*ways(call, results), *strided_ways(call)]
    for attempt in (found, found[:1]):
        chosen: list[Way] = []
        for dim in range(call.mesh.ndim):
            chosen.append(choose(call, attempt, dim, chosen))
        if all(way.axis is None for way in chosen) or _shapes_agree(call, chosen, results):
            if len(_choices) >= _MOST_CHOICES:
                _choices.clear()
            _choices[key] = _Choice(chosen, results, call.rules)
            return _of_ways(call, chosen, results)
    raise AssertionError(f"{call.op.name}: the call on whole tensors has no plan")


# Operators that read the memory of a tensor.
_LAID_OUT = frozenset(("as_strided", "as_strided_scatter"))


def _laid_out(whole: Any, spec: DTensorSpec | None) -> Any:
    """Return a whole tensor with the strides that a distributed tensor has, if no elements share memory."""
    if spec is None or 0 in spec.stride or tuple(spec.stride) == tuple(whole.stride()):
        return whole
    return whole.new_empty_strided(spec.shape, spec.stride).copy_(whole)


# Operators that run as the operators that are recorded for their gradients.
_BY_PARTS: dict[str, Callable[..., Any]] = {"nn.functional.cross_entropy": losses.cross_entropy, "nn.functional.nll_loss": losses.nll_loss}


def tensors_returned(call: CallOnMesh) -> bool:
    """Return True if the operator returns tensors or changes arguments."""
    return "Tensor" in call.text.rpartition("->")[2] or bool(call.mutated)


def run_whole(call: CallOnMesh, values: Sequence[Any]) -> Any:
    """Run an operator that returns no tensors, such as `item`, on whole tensors."""
    names = list(call.arguments)
    whole = {name: value.full_tensor() if _is_distributed(value) else value for name, value in zip(names, values)}
    return call_by_slots(call.op, call.text, whole)


def view_in_place(call: CallOnMesh, values: Sequence[Any]) -> Any:
    """Run an operator such as `squeeze_`, which changes the shape of a tensor."""
    adopt(values[0], call.functional(*values))
    return values[0]


def with_rows_scaled(call: CallOnMesh, values: Sequence[Any]) -> Any:
    """Run a look-up in a table of which the rows are first scaled in place."""
    arguments = dict(zip(call.arguments, values))
    weight = arguments["weight"].detach()
    mt.embedding_renorm_(weight, arguments["input"].reshape(-1), arguments["max_norm"], arguments["norm_type"])
    return call_by_slots(call.op, call.text, {**arguments, "max_norm": None})


def random_call(call: CallOnMesh) -> Any:
    """Return a function that runs a random operator so that its values do not depend on the mesh."""
    from metatensor.distributed.tensor._random import run_random

    return lambda values, out: run_random(call, values, out)


def _placements(call: CallOnMesh, chosen: Sequence[Way], results: list[Any]) -> tuple[dict[Key, Any], list[tuple[Placement, ...]]]:
    """Return the placements that the arguments need, and those of the results, with a way on each mesh dimension."""
    targets = {key: tuple(call.target(key, way, dim) for dim, way in enumerate(chosen)) for key in call.tensors}
    return targets, [tuple(way.outputs[position] for way in chosen) for position in range(len(results))]


def _of_ways(call: CallOnMesh, chosen: Sequence[Way], results: list[Any]) -> Plan:
    """Return the plan for a way on each mesh dimension."""
    targets, outputs = _placements(call, chosen, results)
    locals_ = {key: local_shape(one.shape, call.mesh, targets[key]) for key, one in call.tensors.items()}
    numbers = _local_numbers(call, chosen, locals_)
    placed = tuple(interned(call.mesh, placements, whole.shape, whole.stride(), whole.dtype) for placements, whole in zip(outputs, results))
    names = list(call.arguments)
    slots = tuple((names.index(name), value) for name, value in numbers.items())
    stays = all((call.specs[key].placements if key in call.specs else (Replicate(),) * call.mesh.ndim) == target
                for key, target in targets.items())  # fmt: skip
    kept = all(_is_distributed(target) and target._spec.placements == outputs[position] for position, target in _written(call))
    inside = any(way.inside is not None for way in chosen)
    if stays and kept and call.out is None and not call.fixed and not inside and _dtypes_agree(call, results):
        return Plan(slots, placed)
    gathers = _gathers(call, chosen)
    run = _run_inside(call, chosen, targets) if inside else None
    numbers = call.fixed | numbers
    return Plan(python=lambda values, out: run_moved(call, targets, placed, numbers, gathers, values, out, _written(call), run))


def _dtypes_agree(call: CallOnMesh, results: Sequence[Any]) -> bool:
    """Return True if the results surely have the dtypes that they have on meta. Those of statistics of half precision may differ."""
    given = {one.dtype for one in call.tensors.values() if one.dtype.is_floating_point}
    halves = any(one.itemsize == 2 for one in given)
    return not halves or call.only_meta or all(
        not one.dtype.is_floating_point or one.dtype in given for one in results)  # fmt: skip


def _run_inside(call: CallOnMesh, chosen: Sequence[Way], targets: Mapping[Key, Any]) -> Callable[[dict[str, Any]], Any]:
    dims: dict[str, list[int]] = {}
    for dim, way in enumerate(chosen):
        if way.inside is not None:
            dims.setdefault(way.inside.kind, []).append(dim)
    return lambda arguments: run_inside(call, arguments, targets, dims)


def _shapes_agree(call: CallOnMesh, chosen: Sequence[Way], results: list[Any]) -> bool:
    """Return True if the operator's results on parts have the shapes of parts, on ranks with all sizes of shards.

    The answer is the same on all ranks.
    """
    targets, outputs = _placements(call, chosen, results)
    places = [sorted({0, size // 2, size - 1}) for size in call.mesh.shape]
    for coordinate in product(*places):
        locals_ = {key: part_shape(one.shape, call.mesh, targets[key], coordinate) for key, one in call.tensors.items()}
        try:
            parts = call.on_meta(call.new_tensors(locals_), _local_numbers(call, chosen, locals_))
        except Exception:
            return False
        for part, whole, placements in zip(parts, results, outputs):
            if tuple(part.shape) != part_shape(whole.shape, call.mesh, placements, coordinate):
                return False
    return True


def _local_numbers(call: CallOnMesh, chosen: Sequence[Way], locals_: Mapping[Key, tuple[int, ...]]) -> dict[str, Any]:
    """Return the numbers that the call has on this process's part, where they differ."""
    numbers: dict[str, Any] = {}
    for way in chosen:
        for place in way.axis.places if way.axis is not None else ():
            if place.number:
                assert way.axis is not None
                first = way.axis.dims[0]
                size = place.size * locals_[first.name, first.item][first.dim] // first.size
                value = numbers.get(place.name, call.arguments[place.name])
                numbers[place.name] = (*value[: place.dim], size, *value[place.dim + 1 :]) if isinstance(value, tuple) else size
    return numbers


def _gathers(call: CallOnMesh, chosen: Sequence[Way]) -> str | None:
    """Return why the call runs on gathered tensors, or None if it does not."""
    for dim, way in enumerate(chosen):
        whole = way.rule is None and way.inside is None
        if whole and any(spec.placements[dim] != call.target(key, way, dim) for key, spec in call.specs.items()):
            return f"{call.op.name}: {'no rule fits these placements' if call.rules else 'no sharding rule'}"
    return None

"""Run the recorded calls of PyTorch's operator database on distributed tensors with random placements, forward and backward.

    cd tests
    python -m distributed.oracle_calls                     # three calls of each operator and kind; some minutes
    python -m distributed.oracle_calls --calls 0 --table   # all calls, with the numbers of each operator
    python -m distributed.oracle_calls --ops sort,topk --show

Each call runs on four simulated ranks, on meshes of one and two dimensions. Its tensors are sharded, evenly or not, partial or
replicated, and so are the gradients of its results. Results and gradients, gathered, must be those of the plain call.

The records hold no values, so random ones are used. A call that fails with these values counts as "unsuited". A call that is not
differentiable counts as unsuited for gradients only. A call that differs only in that elements are NaN instead of infinite counts as
"infinite": a partial sum that is divided by zero has infinite parts, whose signs may differ.
"""

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import metatensor as mt
from distributed.placed_calls import flat
from metatensor.distributed import init_process_group, sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.testing.samples import Spec
from metatensor.testing.values import from_values, to_values
from oracle import records

WORLD = 4
MESHES = ((4,), (2, 2))
# Their results have no values of their own.
WITHOUT_VALUES = frozenset("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split())
# Which tensor of the call has values in order.
IN_ORDER = {"bucketize": 1, "histogram": 1, "searchsorted": 0}
# Meaning of the values to try, in this order, until the plain call accepts them.
ROLES = ("values", "unit", "definite", "index")
TOLERANCES = {"float16": 4e-2, "complex32": 4e-2, "bfloat16": 1.5e-1, "float32": 2e-4, "complex64": 2e-4, "float64": 1e-8,
              "complex128": 1e-8}  # fmt: skip
WIDER = {"float32": "float64", "complex64": "complex128"}


class Values(records.Decoder):
    """Builds the arguments of a record with values, in double precision where the record has single precision."""

    def __init__(self, role, seed, in_order=None):
        super().__init__(mt, "cpu")
        self.role, self.seed, self.in_order = role, seed, in_order

    def attribute(self, name):
        return super().attribute(WIDER.get(name, name))

    def tensor(self, spec):
        shape, _stride, dtype, _offset, *_length = spec["T"]
        made = super().tensor({key: value for key, value in spec.items() if key not in "cn"})
        if "a" not in spec:
            made.copy_(self._values(tuple(shape), WIDER.get(dtype, dtype), spec.get("v")))
        self.inputs[-1] = made._neg_view() if spec.get("n") else made.conj() if spec.get("c") else made
        return self.inputs[-1]

    def _values(self, shape, dtype, given):
        seed = self.seed + len(self.inputs)
        if given is not None:
            return mt.tensor(given).reshape(shape)
        role = "sorted" if self.in_order == len(self.inputs) - 1 else self.role
        if role == "definite" and (len(shape) < 2 or shape[-1] != shape[-2] or not dtype.startswith(("float", "complex"))):
            role = "unit"
        return from_values("cpu", Spec(shape, dtype, seed, role).array(), dtype)


class Call(NamedTuple):
    """A recorded call with values."""

    record: dict[str, Any]
    role: str
    seed: int

    def arguments(self):
        decode = Values(self.role, self.seed, IN_ORDER.get(self.record["op"]))
        args, kwargs = decode(self.record["args"]), decode({"d": self.record["kw"]})
        sorter = kwargs.get("sorter")
        if sorter is not None:  # let it sort the sequence
            args[0].copy_(args[0].clone().scatter_(-1, sorter, args[0]))
        return args, kwargs

    def run(self, args, kwargs):
        mt.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return records.invoke(_resolve, self.record["call"], args, kwargs)


_resolve = records.Resolver(mt)


def changed(tree, function):
    """Return nested containers with their tensors replaced."""
    if isinstance(tree, mt.Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: changed(one, function) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)) and not isinstance(tree, mt.Size):
        return type(tree)(changed(one, function) for one in tree)
    return tree


class Outcome(NamedTuple):
    """What a call returned, on whole tensors: tensors as arrays with their layout, and the other values."""

    tensors: list[Any]
    layouts: list[Any]
    others: list[Any]
    grads: list[Any]


def _others(value):
    if isinstance(value, (list, tuple)) and not isinstance(value, mt.Size):
        return [one for member in value for one in _others(member)]
    return [] if isinstance(value, mt.Tensor) else [str(value) if isinstance(value, mt.device) else value]


def outcome(call, place, backward, outs=None):
    """Make the call and return its `Outcome`. ``place`` is applied to each argument, and to gradients of results.

    ``outs`` are the tensors that the plain call returned, of which ``out=`` gets the shapes.
    """
    args, kwargs = call.arguments()
    out = kwargs.pop("out", None)
    if out is not None and outs is not None:
        shaped = iter(outs)
        out = changed(out, lambda one: one if one.shape == (found := next(shaped, one)).shape else one.new_empty(found.shape))
    leaves = []

    def prepared(tensor):
        placed = place(tensor)
        if backward and (placed.is_floating_point() or placed.is_complex()):
            leaves.append(placed.requires_grad_())
            if call.record["k"] == "inplace":
                return placed.clone()
        return placed

    args, kwargs = changed(args, prepared), changed(kwargs, prepared)
    if out is not None:
        kwargs["out"] = changed(out, place)
    result = call.run(args, kwargs)
    tensors = flat(result)
    found = Outcome([whole(one) for one in tensors], [(tuple(one.shape), one.dtype) for one in tensors], _others(result), [])
    if backward:
        outputs = [one for one in tensors if one.requires_grad]
        weights = [place(weight_of(one, number)) for number, one in enumerate(outputs)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grads = mt.autograd.grad(outputs, leaves, weights, allow_unused=True)
        found = found._replace(grads=[None if one is None else whole(one) for one in grads])
    return found


def weight_of(tensor, number):
    """Return a gradient for a result that depends on the position."""
    values = mt.arange(tensor.numel(), dtype=mt.float64).add(number).sin().reshape(tensor.shape)
    return values.to(tensor.dtype)


def whole(tensor):
    tensor = tensor.detach()
    tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return tensor.resolve_conj().resolve_neg()


def alike(got, expected):
    """Return True if two tensors are equal within rounding."""
    if got is None or expected is None:
        return got is expected
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    limit = TOLERANCES.get(str(expected.dtype).rpartition(".")[2])
    if limit is None:
        return bool((to_values(got) == to_values(expected)).all())
    kind = mt.complex128 if expected.dtype.is_complex else mt.float64
    return mt.allclose(got.to(kind), expected.to(kind), rtol=limit, atol=limit * max(1.0, _scale(expected)), equal_nan=True)


def _scale(tensor):
    values = tensor.abs().to(mt.float64) if tensor.numel() else mt.zeros(1)
    finite = values[values.isfinite()]
    return finite.max().item() if finite.numel() else 0.0


INFINITE = "NaN instead of infinity"


def with_infinities(got, expected):
    """Return a tensor with infinities in place of NaN, where another one has them."""
    if got is None or expected is None or got.shape != expected.shape or got.dtype != expected.dtype:
        return got
    return mt.where(got.isnan() & expected.isinf(), expected, got)


def difference(call, got, expected):
    """Return what two outcomes differ in, or ""."""
    if got.layouts != expected.layouts:
        return f"results are {got.layouts} instead of {expected.layouts}"
    if len(got.others) != len(expected.others) or not all(a == b or a != a for a, b in zip(got.others, expected.others)):
        return f"returned {got.others} instead of {expected.others}"
    found = ""
    for what, mine, plain_ones in (("results", got.tensors, expected.tensors), ("gradients", got.grads, expected.grads)):
        if (what == "results" and call.record["op"] in WITHOUT_VALUES) or all(map(alike, mine, plain_ones)):
            continue
        if not all(map(alike, map(with_infinities, mine, plain_ones), plain_ones)):
            return f"values of the {what}"
        found = f"{INFINITE} in the {what}"
    return found


def plain(record, seed):
    """Return (call, outcome, backward) for the first kind of values that the plain call accepts, or None."""
    differentiable = record["k"] != "out" and record["op"] not in WITHOUT_VALUES
    for backward in (True, False) if differentiable else (False,):
        for role in ROLES:
            call = Call(record, role, seed)
            try:
                found = outcome(call, lambda one: one, backward)
            except Exception:
                continue
            if not backward or any(one is not None for one in found.grads):
                return call, found, backward
    return None


class Placer:
    """Distributes tensors at random, in the same way on all ranks."""

    def __init__(self, mesh, seed):
        self.mesh, self.draw, self.chosen = mesh, random.Random(seed), []

    def __call__(self, tensor):
        choices = [Replicate()] + [Shard(dim) for dim in range(tensor.dim())] * 2
        if tensor.is_floating_point() or tensor.is_complex():
            choices.append(Partial())
        placements = [self.draw.choice(choices) for _ in range(self.mesh.ndim)]
        self.chosen.append(tuple(placements))
        return distribute_tensor(tensor, self.mesh, placements, src_data_rank=None)


def check(call, expected, backward, shape, seed):
    """Return what is wrong with a call on a mesh of a shape, or ""."""

    def run():
        init_process_group()
        place = Placer(init_device_mesh("cpu", shape), seed)
        problem = difference(call, outcome(call, place, backward, expected.tensors), expected)
        return f"{problem}, placed {place.chosen}" if problem else ""

    try:
        return next((one for one in sim.run(run, world_size=WORLD, timeout=60.0) if one), "")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:400]}"


def is_part(value):
    """Return True for a tensor that is a part of a larger memory, and for a container with one. A distributed tensor has its own."""
    if isinstance(value, list):
        return any(map(is_part, value))
    return isinstance(value, dict) and ("T" in value and len(value["T"]) > 4 or any(map(is_part, value.values())))


def chosen_records(ops=None, calls=3, kinds=("sample", "inplace", "out")):
    """Yield ``calls`` records of each operator, variant, kind and dtype, evenly spread. 0: all."""
    groups = defaultdict(list)
    for record in records.read(records.files(), ops, kinds=kinds):
        if record["op"] == "as_strided" and is_part(record["args"]):
            continue
        if "error" not in record["cat"] and record["cat"] != "silent" and "T" in json.dumps(record["args"]):
            groups[record["op"], record["var"], record["k"]].append(record)
    for group in groups.values():
        count = min(calls, len(group)) if calls else len(group)
        for number in range(count):
            yield group[number * len(group) // count]


def results(found, placements=2):
    """Yield (record, number of the placement, problem) for each call, with None for a call that its values do not suit."""
    for number, record in enumerate(found):
        made = plain(record, number)
        if made is None:
            yield record, 0, None
            continue
        for place in range(placements):
            yield record, place, check(*made, MESHES[(number + place) % len(MESHES)], number * 10 + place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="names, separated by commas")
    parser.add_argument("--calls", type=int, default=3, help="calls of each operator, variant and kind; 0 means all")
    parser.add_argument("--placements", type=int, default=2, help="of each call")
    parser.add_argument("--share", default="1/1", help="2/5: the second fifth of the calls")
    parser.add_argument("--show", action="store_true", help="show all problems, not one of each operator")
    parser.add_argument("--table", action="store_true", help="show the numbers of each operator")
    options = parser.parse_args()
    part, parts = map(int, options.share.split("/"))
    ops = set(options.ops.split(",")) if options.ops else None
    chosen = list(chosen_records(ops, options.calls))[part - 1 :: parts]
    count, problems = defaultdict(Counter), defaultdict(list)
    start = time.time()
    for record, place, problem in results(chosen, options.placements):
        name = record["op"] + ("." + record["var"] if record["var"] else "")
        kind = "unsuited" if problem is None else "infinite" if problem.startswith(INFINITE) else "wrong" if problem else "right"
        count[name][kind] += 1
        if problem:
            problems[name].append(f"{record['id']} {record['call'][1]} placement {place}: {problem}")
    for name, found in sorted(problems.items()):
        for one in found if options.show else found[:1]:
            print(f"{name} ({len(found)}): {one}")
    if options.table:
        for name, found in sorted(count.items()):
            print(f"{name:50}" + "".join(f" {found[kind]:5} {kind}" for kind in ("right", "wrong", "infinite", "unsuited")))
    total = sum(count.values(), Counter())
    print(f"{len(count)} operators, {len(chosen)} calls: {total['right']} right, {total['wrong']} wrong, {total['infinite']} infinite "
          f"({len(problems)} operators), {total['unsuited']} unsuited, in {time.time() - start:.0f} s")  # fmt: skip
    return bool(total["wrong"])


if __name__ == "__main__":
    sys.exit(main())

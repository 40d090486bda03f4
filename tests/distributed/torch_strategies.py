"""Compare the sharding rules with PyTorch's strategies: which dimensions of a call's arguments may be cut.

    cd tests
    python -m distributed.torch_strategies           # needs PyTorch 2.13; about a minute
    python -m distributed.torch_strategies --show    # with the dimensions that PyTorch cuts and the rules do not

For each sample call that PyTorch runs as one operator with a strategy, each dimension of each argument is sharded in turn.
It counts as cut by PyTorch if a strategy that it offers then keeps this shard.
"""

import argparse
import os
import warnings
from collections import Counter
from unittest import mock

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh as their_mesh
from torch.distributed.tensor import DTensor, _sharding_prop
from torch.distributed.tensor import Replicate as TheirReplicate
from torch.distributed.tensor import Shard as TheirShard
from torch.testing._internal.distributed.fake_pg import FakeStore

import metatensor as mt
from metatensor.distributed.tensor import Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor._communicating import inside_ways
from metatensor.distributed.tensor._planning import CallOnMesh
from metatensor.distributed.tensor.sharding import features, rules_of
from metatensor.distributed.tensor.sharding.making import sharded_overloads
from metatensor.distributed.tensor.sharding.samples import samples_for
from metatensor.distributed.tensor.sharding.trying import Trial
from metatensor.testing.samples import Spec

WORLD = 2


def start():
    """Connect PyTorch to a world without communication. Return its mesh."""
    warnings.simplefilter("ignore")
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    return their_mesh("cpu", (WORLD,))


def their_function(name):
    """Return PyTorch's function of a name."""
    found = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else getattr(torch.Tensor, name, None)


def as_theirs(value):
    if isinstance(value, Spec):
        return torch.tensor(value.array()).to(getattr(torch, value.dtype))
    if isinstance(value, list):
        return [as_theirs(one) for one in value]
    return getattr(torch, value.name) if isinstance(value, mt.dtype) else value


def strategies_kept(mesh, function, arguments, key, dim):
    """Return True if PyTorch runs a call as one operator that keeps a shard of one argument; None if it is not one operator."""
    offered = []
    choose = _sharding_prop._select_min_cost_strategy

    def noting(strategy, schema=None):
        offered.append((strategy, schema))
        return choose(strategy, schema)

    def place(name, item, value):
        if not isinstance(value, torch.Tensor):
            return value
        here = [TheirShard(dim)] if (name, item) == key else [TheirReplicate()]
        return DTensor.from_local(value.chunk(WORLD, dim)[0] if (name, item) == key else value, mesh, here, run_check=False)

    given = {name: [place(name, item, one) for item, one in enumerate(value)] if isinstance(value, list) else place(name, -1, value)
             for name, value in arguments.items()}  # fmt: skip
    with mock.patch.object(_sharding_prop, "_select_min_cost_strategy", noting):
        DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache.cache_clear()
        function(*given.values())
    if len(offered) != 1:
        return None
    members = [(name, item, one) for name, value in arguments.items()
               for item, one in (enumerate(value) if isinstance(value, list) else [(-1, value)])]  # fmt: skip
    order = [(name, item) for name, item, one in members if isinstance(one, torch.Tensor)]
    for strategy in offered[0][0].strategies:
        specs = strategy.input_specs
        if specs is not None and len(specs) == len(order):
            placement = specs[order.index(key)].placements[0]
            if placement == TheirShard(dim):
                return True
    return False


def dims_that_are_cut(op, overload, sample):
    """Return the (name, item, dim) that the sharding rules cut in a call, and those that it cuts with communication inside."""
    shapes = {name: mt.empty(value.shape, dtype=getattr(mt, value.dtype), device="meta") for name, value in sample.specs()}
    values = [shapes.get(name, value) for name, value in sample.arguments.items()]
    mesh = mt.distributed.init_device_mesh("meta", (WORLD,))
    names = list(sample.arguments)
    try:
        if any(isinstance(value, list) for value in values):
            return dims_that_rules_cut(op, overload, sample)
        given = [distribute_tensor(one, mesh, [Replicate()]) if isinstance(one, mt.Tensor) else one for one in values]
        call = CallOnMesh(op, overload, names, given, 0, None)
        inside = {(name, item, place.dim) for way in inside_ways(call, call.whole_results()) for (name, item), place in way.inputs.items()
                  if isinstance(place, Shard)}  # fmt: skip
    finally:
        mt.distributed.destroy_process_group()
    return dims_that_rules_cut(op, overload, sample) | inside


def dims_that_rules_cut(op, overload, sample):
    """Return the (name, item, dim) that the sharding rules cut in a call."""
    if op.name == "squeeze":  # runs as `squeeze.dims`
        dims = {dim for dim, size in enumerate(sample.arguments["input"].shape) if size > 1}
        return {("input", -1, dim) for dim in dims}
    trial = Trial(op, overload, sample, features.size_arguments(overload.text))
    shapes = trial.shapes()
    results = trial.result_shapes(shapes)
    chosen = dict(features.options(overload.text, sample.arguments))
    found = set()
    for axis in trial.axes():
        names = features.members(overload.text, sample.arguments, axis, shapes)
        properties = features.position(axis, shapes, results) | chosen
        for rule in rules_of(overload.qualname).cuts:
            joins = rule.joins * len(results) if trial.returns_list else rule.joins
            fits = len(joins) == len(results) and all((join == "cat") == (dim >= 0) for join, dim in zip(joins, axis.outputs))
            if rule.members == names and fits and rule.holds(properties):
                found |= {(place.name, place.item, place.dim) for place in axis.dims}
    return found


def compare(mesh, op, overload):
    """Yield (sample, name, item, dim, cut by the rules) for each dimension that PyTorch cuts in the samples of an overload."""
    function = their_function(op.name)
    if function is None:
        return
    for sample in samples_for(op, overload)[:10]:
        try:
            arguments = {name: as_theirs(value) for name, value in sample.arguments.items()}
            ours = None
            for (name, item), spec in [((name, -1), value) for name, value in sample.arguments.items() if isinstance(value, Spec)]:
                for dim, size in enumerate(spec.shape):
                    if size % WORLD == 0 and strategies_kept(mesh, function, arguments, (name, item), dim):
                        ours = dims_that_are_cut(op, overload, sample) if ours is None else ours
                        yield sample, name, item, dim, (name, item, dim) in ours
        except Exception:
            continue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    import metatensor.nn.functional  # noqa: F401, defines operators

    mesh = start()
    count, lacking = Counter(), {}
    operators = set()
    for op, overload in sharded_overloads():
        if options.names and overload.qualname not in options.names:
            continue
        for sample, name, item, dim, ours in compare(mesh, op, overload):
            operators.add(overload.qualname)
            count[ours] += 1
            if not ours:
                lacking.setdefault(overload.qualname, []).append(f"{name}{'' if item < 0 else f'[{item}]'} dim {dim} of {sample}")
    for name, cases in sorted(lacking.items()):
        for case in cases if options.show else cases[:1]:
            print(f"{name} ({len(cases)}): {case}")
    total = count[True] + count[False]
    share = 100 * count[True] / max(total, 1)
    print(f"{len(operators)} overloads; PyTorch cuts {total} dimensions, the rules {count[True]} of them ({share:.1f}%)")


if __name__ == "__main__":
    os.environ.setdefault("TORCH_LOGS", "")
    main()

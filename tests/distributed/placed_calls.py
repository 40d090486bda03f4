"""Run operators on distributed tensors with any placements, on simulated ranks, and compare with the plain call.

    cd tests
    python -m distributed.placed_calls                  # all operators, forward and backward; a few minutes
    python -m distributed.placed_calls mm sum --show    # some overloads, by qualified name, with all failures
"""

import argparse
import random
import sys
import warnings
from collections import Counter

import metatensor as mt
from metatensor._core.op import operator_flags
from metatensor._core.tensor import Tensor
from metatensor.distributed import init_process_group, sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.sharding.joins import equal
from metatensor.distributed.tensor.sharding.making import sharded_overloads
from metatensor.distributed.tensor.sharding.samples import samples_for
from metatensor.testing.values import to_values

WORLD = 4
SKIPPED = ("empty", "new_empty", "set_", "share_memory_", "pin_memory", "_from_host", "resize")


def overloads(names=()):
    """Yield the overloads to check: all primitives that return tensors, or those with the given names."""
    import metatensor.nn.functional  # noqa: F401, defines operators

    for op, overload in sharded_overloads():
        if (not names or overload.qualname in names) and not overload.qualname.startswith(SKIPPED):
            yield op, overload


def placements_for(draw, ndim, mesh_ndim, floating):
    """Return random placements for a tensor."""
    choices = [Replicate()] + [Shard(dim) for dim in range(ndim)] * 2
    if floating:
        choices.append(Partial())
    return [draw.choice(choices) for _ in range(mesh_ndim)]


def distributed(value, mesh, draw):
    """Return a value with its tensors distributed at random."""
    if isinstance(value, list):
        return [distributed(one, mesh, draw) for one in value]
    if not isinstance(value, Tensor):
        return value
    return distribute_tensor(value, mesh, placements_for(draw, value.dim(), mesh.ndim, value.dtype.is_floating_point), src_data_rank=None)


def flat(value):
    if isinstance(value, Tensor):
        return [value]
    return [one for member in value for one in flat(member)] if isinstance(value, (list, tuple)) else []


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def call(op, sample, arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mt.manual_seed(7)
        if sample.positional:
            rest = {name: value for name, value in arguments.items() if name not in sample.positional}
            return op(*[arguments[name] for name in sample.positional], **rest)
        return op(**arguments)


def gradients(results, leaves):
    """Return the gradients of the leaves for weights that depend on the position."""
    total = None
    for one in results:
        if one.requires_grad and one.dtype.is_floating_point:
            term = (one * one.detach().sign()).sum()
            total = term if total is None else total + term
    if total is None:
        return []
    return mt.autograd.grad(total, leaves, allow_unused=True)


def check(op, overload, sample, shape, seed, backward=True):
    """Return what is wrong with a sample on a mesh of a shape, or ""."""
    arguments = {name: _grad(value, backward) for name, value in sample.on("cpu").items()}
    try:
        plain = {name: _copy(value) for name, value in arguments.items()}
        results = flat(call(op, sample, plain))
        expected = [to_values(one.detach()) for one in results]
        leaves = [one for value in plain.values() for one in flat(value) if one.requires_grad and one.is_leaf] if backward else []
        grads = [None if one is None else to_values(one) for one in gradients(results, leaves)] if leaves else []
    except Exception:
        return "skipped"

    def run():
        init_process_group()
        mesh = init_device_mesh("cpu", shape)
        draw = random.Random(seed)
        given = {name: distributed(_copy(value), mesh, draw) for name, value in arguments.items()}
        placed = {name: [one.placements for one in flat(value)] for name, value in given.items() if flat(value)}
        try:
            found = flat(call(op, sample, given))
            got = [to_values(whole(one.detach())) for one in found]
            if len(got) != len(expected) or not all(map(equal, got, expected)):
                return f"forward of {sample} placed {placed}"
            if leaves:
                mine = [one for value in given.values() for one in flat(value) if one.requires_grad]
                for one, other in zip(gradients(found, mine), grads):
                    if (one is None) != (other is None) or (one is not None and not equal(to_values(whole(one)), other)):
                        return f"backward of {sample} placed {placed}"
        except Exception as error:
            error.add_note(f"{overload.qualname}: {sample} placed {placed}")
            raise
        return ""

    try:
        return next((one for one in sim.run(run, world_size=WORLD) if one), "")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]} {getattr(error, '__notes__', '')}"


def _grad(value, backward):
    if isinstance(value, list):
        return [_grad(one, backward) for one in value]
    if isinstance(value, Tensor) and backward and value.dtype.is_floating_point:
        return value.requires_grad_()
    return value


def _copy(value):
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def cases(op, overload, count):
    """Return samples of an overload, in double precision."""
    samples = [one.with_values(dtype="float64") if any(spec.dtype == "float32" for _, spec in one.specs()) else one
               for one in samples_for(op, overload) if one.specs()]  # fmt: skip
    step = max(1, len(samples) // count)
    return samples[::step][:count]


def differentiable(overload):
    return not overload.flags & operator_flags.NO_GRAD and not overload.qualname.endswith("_")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--placements", type=int, default=3)
    options = parser.parse_args()
    count, wrong = Counter(), {}
    for op, overload in overloads(options.names):
        for number, sample in enumerate(cases(op, overload, options.samples)):
            for seed in range(options.placements):
                shape = (2, 2) if seed % 3 == 2 else (4,)
                problem = check(op, overload, sample, shape, number * 100 + seed, differentiable(overload))
                count["skipped" if problem == "skipped" else "wrong" if problem else "right"] += 1
                if problem not in ("", "skipped"):
                    wrong.setdefault(overload.qualname, []).append(problem)
    for name, problems in sorted(wrong.items()):
        for problem in problems if options.show else problems[:1]:
            print(f"{name} ({len(problems)}): {problem}")
    print(dict(count), f"{len(wrong)} overloads with failures")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

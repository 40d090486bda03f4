"""The placements of results of 60 operators, six placements each, here and in PyTorch, and the bytes that each rank sends for them.

    cd tests
    python -m distributed.placements_like_torch      # needs PyTorch 2.13: prints the differences
"""

import warnings
from collections import Counter
from contextlib import contextmanager

WORLD = 4
PLACEMENTS = ("R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)")

# Functions of a library, an 8 x 8 tensor with one of the placements, and a replicated one.
OPERATORS = {
    "abs": lambda t, x, r: x.abs(), "neg": lambda t, x, r: -x, "exp": lambda t, x, r: x.exp(), "relu": lambda t, x, r: x.relu(),
    "gelu": lambda t, x, r: t.nn.functional.gelu(x), "silu": lambda t, x, r: t.nn.functional.silu(x),
    "tanh": lambda t, x, r: x.tanh(), "sigmoid": lambda t, x, r: x.sigmoid(), "sqrt": lambda t, x, r: x.sqrt(),
    "square": lambda t, x, r: x.square(), "add scalar": lambda t, x, r: x + 1, "mul scalar": lambda t, x, r: x * 2,
    "div scalar": lambda t, x, r: x / 2, "pow": lambda t, x, r: x**2, "add": lambda t, x, r: x + r,
    "add same": lambda t, x, r: x + x, "sub": lambda t, x, r: x - r, "mul": lambda t, x, r: x * r,
    "mul same": lambda t, x, r: x * x, "div": lambda t, x, r: x / r, "maximum": lambda t, x, r: t.maximum(x, r),
    "where": lambda t, x, r: t.where(x > 0, x, r), "eq": lambda t, x, r: x == r, "gt scalar": lambda t, x, r: x > 1,
    "clamp": lambda t, x, r: x.clamp(min=0), "clone": lambda t, x, r: x.clone(), "detach": lambda t, x, r: x.detach(),
    "to": lambda t, x, r: x.to(t.float64), "zeros_like": lambda t, x, r: t.zeros_like(x),
    "ones_like": lambda t, x, r: t.ones_like(x), "sum": lambda t, x, r: x.sum(), "sum 0": lambda t, x, r: x.sum(0),
    "sum 1 keepdim": lambda t, x, r: x.sum(1, keepdim=True), "mean": lambda t, x, r: x.mean(),
    "mean 0": lambda t, x, r: x.mean(0), "amax 0": lambda t, x, r: x.amax(0), "max": lambda t, x, r: x.max(),
    "min": lambda t, x, r: x.min(), "prod 0": lambda t, x, r: x.prod(0), "var 1": lambda t, x, r: x.var(1),
    "argmax 1": lambda t, x, r: x.argmax(1), "cumsum 1": lambda t, x, r: x.cumsum(1), "softmax 1": lambda t, x, r: x.softmax(1),
    "log_softmax 0": lambda t, x, r: x.log_softmax(0), "sort 1": lambda t, x, r: x.sort(1)[0],
    "topk 1": lambda t, x, r: x.topk(2, 1)[0], "t": lambda t, x, r: x.t(), "transpose": lambda t, x, r: x.transpose(0, 1),
    "view": lambda t, x, r: x.view(8, 4, 2), "view rows": lambda t, x, r: x.view(4, 2, 8), "flatten": lambda t, x, r: x.view(64),
    "unsqueeze": lambda t, x, r: x.unsqueeze(0), "expand": lambda t, x, r: x.unsqueeze(0).expand(3, 8, 8),
    "select": lambda t, x, r: x.select(1, 0), "slice": lambda t, x, r: x[:, :4], "cat": lambda t, x, r: t.cat([x, x], 1),
    "stack": lambda t, x, r: t.stack([x, x]), "mm right": lambda t, x, r: x @ r, "mm left": lambda t, x, r: r @ x,
    "layer_norm": lambda t, x, r: t.nn.functional.layer_norm(x, (8,)),
}  # fmt: skip


def placement(types, text):
    """Return the placement that a text names, of a library."""
    if text == "R":
        return types.Replicate()
    return types.Shard(int(text[2])) if text.startswith("S") else types.Partial(text[2:-1])


def short(tensor):
    return ",".join(map(str, tensor.placements))


def sent(kind, nbytes):
    """Return the bytes that a rank sends in a collective whose largest argument has a size."""
    share = nbytes * (WORLD - 1) / WORLD
    return 2 * share if kind == "all_reduce" else share


def ours():
    """Return {(operator, placement): (placement of the result or the class of the error, bytes sent)} here."""
    import metatensor as mt
    from metatensor.distributed import tensor as types

    mesh = types.init_device_mesh("meta", (WORLD,))

    @contextmanager
    def counting():
        total = [0.0]
        with mt.distributed.CommunicationLog() as log:
            yield total
        total[0] = sum(sent(one.kind, one.bytes) for one in log)

    try:
        return results(mt, types, mesh, "meta", counting)
    finally:
        mt.distributed.destroy_process_group()


def theirs():
    """Return the same for PyTorch."""
    import torch
    import torch.distributed
    from torch.distributed import tensor as types
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._python_dispatch import TorchDispatchMode

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)

    class Counting(TorchDispatchMode):
        total = 0.0

        def __torch_dispatch__(self, function, classes, args=(), kwargs=None):
            if any(issubclass(one, types.DTensor) for one in classes):
                return NotImplemented       # the calls on parts follow
            result = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            if function.namespace == "_c10d_functional" and name != "wait_tensor":
                self.total += sent(name, max(one.numel() * one.element_size() for one in (args[0], result)))
            elif function.namespace == "_dtensor":      # shards of one dimension for shards of another
                self.total += sent(name, args[0].numel() * args[0].element_size())
            return result

    @contextmanager
    def counting():
        total = [0.0]
        with Counting() as mode:
            yield total
        total[0] = mode.total

    return results(torch, types, types.init_device_mesh("cpu", (WORLD,)), "cpu", counting)


def results(library, types, mesh, device, counting):
    found = {}
    for text in PLACEMENTS:
        shape = {"S(0)": (8 // WORLD, 8), "S(1)": (8, 8 // WORLD)}.get(text, (8, 8))
        for name, function in OPERATORS.items():
            x = types.DTensor.from_local(library.ones(shape, device=device), mesh, [placement(types, text)], run_check=False)
            r = types.DTensor.from_local(library.ones(8, 8, device=device), mesh, [types.Replicate()], run_check=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with counting() as total:
                    try:
                        placed = short(function(library, x, r))
                    except Exception as error:
                        placed = type(error).__name__
                found[name, text] = placed, total[0]
    return found


def main():
    mine, other = ours(), theirs()
    count = Counter(mine[key][0] == other[key][0] for key in mine)
    for key in mine:
        if mine[key][0] != other[key][0]:
            (here, nbytes), (there, their_bytes) = mine[key], other[key]
            print(f"{key[0]} of {key[1]}: {here} here, {there} in PyTorch; {nbytes:.0f} and {their_bytes:.0f} bytes sent")
    print(f"{count[True]} of {len(mine)} placements are PyTorch's; here {sum(one for _, one in mine.values()):.0f} bytes are sent, "
          f"there {sum(one for _, one in other.values()):.0f}")  # fmt: skip


if __name__ == "__main__":
    main()

"""Small programs made by hypothesis, and a comparison of what two programs do."""

from hypothesis import strategies as st

import metatensor as mt

SHAPE = (2, 3)


def constant():
    return mt.arange(6.0, device="cpu").view(SHAPE) / 4


STEPS = {
    "add": lambda a, b, s: a + b,
    "mul": lambda a, b, s: a * b * 0.5,
    "where": lambda a, b, s: mt.where(a > b, a, b),
    "exp": lambda a, b, s: a.clamp(-2, 2).exp(),
    "relu": lambda a, b, s: mt.nn.functional.relu(a),
    "gelu": lambda a, b, s: mt.nn.functional.gelu(a),
    "softmax": lambda a, b, s: a.softmax(-1),
    "matmul": lambda a, b, s: a @ b.t() @ a * 0.1,
    "transpose": lambda a, b, s: a.t().contiguous().t(),
    "view": lambda a, b, s: a.reshape(3, 2).reshape(SHAPE),
    "same_view": lambda a, b, s: a.view_as(a),
    "row": lambda a, b, s: a[0].expand(SHAPE),
    "clone": lambda a, b, s: a.clone(),
    "detach": lambda a, b, s: a.detach(),
    "to": lambda a, b, s: a.to(mt.float64).to(mt.float32),
    "split": lambda a, b, s: mt.cat(a.split(2, dim=1)[::-1], 1),
    "max": lambda a, b, s: a.max(dim=1, keepdim=True).values.expand(SHAPE),
    "zeros": lambda a, b, s: mt.zeros(SHAPE, device="cpu") + a,
    "number": lambda a, b, s: a + mt.tensor([1.0, 2.0, 3.0], device="cpu") * 2,
    "constant": lambda a, b, s: a * (s.sin() + 1),
    "rand": lambda a, b, s: a + mt.rand(SHAPE, device="cpu"),
    "dropout": lambda a, b, s: mt.nn.functional.dropout(a, 0.5),
    "add_": lambda a, b, s: a.add_(b.clone()),
    "mul_row": lambda a, b, s: (a[1].mul_(2), a)[1],
    "fill_column": lambda a, b, s: (a.t()[0].fill_(1.5), a)[1],
    "set_item": lambda a, b, s: (a.__setitem__((slice(None), 1), b[:, 0].clone()), a)[1],
    "copy_": lambda a, b, s: a.copy_(b.clone()),
    "relu_": lambda a, b, s: mt.nn.functional.relu(a, inplace=True),
    "out": lambda a, b, s: mt.add(b, 1, out=mt.empty(SHAPE, device="cpu")),
    "normal_": lambda a, b, s: mt.empty(SHAPE, device="cpu").normal_(),
    "index_put_": lambda a, b, s: (a.__setitem__(mt.tensor([0], device="cpu"), 0.25), a)[1],
    "flat": lambda a, b, s: (a.clone(memory_format=mt.contiguous_format).view(-1)[2:5].add_(1), a)[1],
    "t_": lambda a, b, s: a.clone().t_().contiguous().t_(),
    "unused": lambda a, b, s: (a.exp(), a)[1],
}  # fmt: skip

steps = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)
wanted = st.lists(st.integers(0, 20), min_size=1, max_size=3)


def function(chosen, returned):
    """Return a function of two tensors, with a parameter and a constant, that takes these steps."""
    model = mt.nn.Linear(3, 3, device="cpu")
    held = constant()

    def fn(x, y):
        pool = [x, y, model(x)]
        for name, a, b in chosen:
            first = pool[a % len(pool)]
            if 0 in first.stride():  # elements share memory, and cannot be written to
                first = first.clone(memory_format=mt.contiguous_format)
            pool.append(STEPS[name](first, pool[b % len(pool)], held))
        return [pool[-1 - i % len(pool)] for i in returned]

    return fn


def traced(chosen, returned):
    """Return the program of a function, traced without gradients."""
    with mt.no_grad():
        return mt.program.trace(function(chosen, returned), *inputs())


def inputs():
    generator = mt.Generator().manual_seed(7)
    return tuple(mt.randn(SHAPE, generator=generator, device="cpu") for _ in range(2))


def outcome(program, *, args=None):
    """Return what a program returns and what it leaves in its arguments, parameters and constants, as copies."""
    given = inputs() if args is None else tuple(a.clone() for a in args)
    state = {name: t.detach().clone() for name, t in getattr(program, "tensors", {}).items()}
    kept = {name: mt.nn.Parameter(t, requires_grad=False) if program.kinds[name] == "parameter" else t for name, t in state.items()}
    mt.manual_seed(11)
    with mt.no_grad():
        made = (program.bind(kept) if kept else program)(*given)
    return made, given, kept


def peak(program):
    """Return the peak of memory of a run in bytes, without the arguments and what the program holds."""
    given = inputs()
    with mt.no_grad():
        program(*given)
        with mt.analysis.MemoryTracker() as tracker:
            program(*given)
    return tracker.peak


def flat(nested):
    return [t for t in mt.utils._pytree.tree_leaves(nested) if isinstance(t, mt.Tensor)]


def assert_same(before, after, close=None):
    """Compare two outcomes: bit for bit, or within a tolerance."""
    for one, other in zip(before[:2], after[:2], strict=True):
        for a, b in zip(flat(one), flat(other), strict=True):
            assert a.shape == b.shape
            if close is None:
                assert mt.equal(a.nan_to_num(77), b.nan_to_num(77)), (a, b)
            else:
                assert mt.allclose(a.to(mt.float64), b.to(mt.float64), rtol=close, atol=close, equal_nan=True), (a, b)
    for name in before[2].keys() & after[2].keys():
        assert mt.equal(before[2][name], after[2][name]), name


def check_releases(program):
    """Check that nothing is released before its last use."""
    from metatensor.program.program import Value
    from metatensor.program.structure import leaves

    gone = set()
    for i, call in enumerate(program.calls):
        for value in leaves(Value, (call.args, call.kwargs)):
            assert value.storage not in gone, (i, call)
        gone |= set(program.releases.get(i, ()))
    there = {value.number for value in [*program.inputs, *program.held.values()]}
    for call in program.calls:
        assert all(value.number in there for value in leaves(Value, (call.args, call.kwargs)))
        there |= {value.number for value in leaves(Value, call.result)}
    assert {value.number for value in program.outputs} <= there

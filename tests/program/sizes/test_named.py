"""Programs with named sizes equal fresh traces at all sizes, and find the branches of the code."""

import bisect
import gc
import math

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.program.sizes.numbers import taken
from metatensor.program.sizes.pieces import SizesError

F = nn.functional


def meta(*shape, **options):
    return mt.empty(*shape, device="meta", **options)


def check(program, fn, make, *sizes):
    """Compare with fresh traces, in every number."""
    for at in sizes:
        fresh, known = taken(mt.program.trace(fn, *make(**at))), taken(program.at(**at))
        assert mt.program.equal(known.program, fresh.program), at
        assert known.same_calls(fresh) and known.numbers == fresh.numbers, at
        assert known.program.releases == fresh.program.releases


def test_a_module():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("meta")
    program = mt.program.trace(model, meta(5, 7, 8), sizes={"batch": (1, 64), "seq": range(1, 8193)}, dims=[["batch", "seq", None]])
    check(program, model, lambda batch, seq: [meta(batch, seq, 8)],
          {"batch": 1, "seq": 1}, {"batch": 64, "seq": 8192}, {"batch": 2, "seq": 777})  # fmt: skip
    assert program.conditions() == [] and program.confirmed >= 3
    assert "input: float32[batch, seq, 8]" in str(program) and "v5: float32[batch, seq, 4]" in str(program).replace("v7", "v5")
    assert program(meta(3, 11, 8)).shape == (3, 11, 4)


def test_a_branch_that_no_sample_crosses_is_found():
    def fn(x):
        if x.shape[1] > 777:
            x = x.relu()
        return x * 2

    program = mt.program.trace(fn, meta(2, 16), sizes={"seq": (1, 1 << 40)}, dims={"x": [None, "seq"]})
    assert program.conditions()[0] == "seq <= 777: the 1 listed call"
    check(program, fn, lambda seq: [meta(2, seq)], {"seq": 777}, {"seq": 778}, {"seq": 1}, {"seq": 1 << 40})
    narrow = mt.program.trace(fn, meta(2, 16), sizes={"seq": (1, 777)}, dims={"x": [None, "seq"]})
    assert narrow.conditions() == []


def test_comparisons_of_what_is_computed_from_sizes():
    def fn(x):
        pad = -x.shape[0] % 7
        if pad:
            x = F.pad(x, (0, 0, 0, pad))
        windows = x.view(x.shape[0] // 7, 7, x.shape[1])
        return windows.sum(1) if windows.shape[0] * 3 != 12 else windows.amax(1)

    program = mt.program.trace(fn, meta(20, 4), sizes={"n": (1, 200)}, dims={"x": ["n", None]})
    check(program, fn, lambda n: [meta(n, 4)], *({"n": n} for n in (1, 7, 21, 22, 27, 28, 29, 35, 199, 200)))
    assert any("== 4" in line for line in program.conditions())


def test_decisions_of_operators_are_found_by_trying():
    def fn(x):
        return x.transpose(0, 1).reshape(-1).unsqueeze(0)[:, :100]    # a view where one of the sizes is 1

    program = mt.program.trace(fn, meta(3, 50), sizes={"a": (1, 64), "b": (1, 700)}, dims=[["a", "b"]])
    check(program, fn, lambda a, b: [meta(a, b)], *({"a": a, "b": b} for a, b in (
        (1, 1), (1, 99), (1, 100), (1, 101), (2, 50), (50, 2), (9, 11), (10, 10), (64, 700), (64, 1), (51, 2))))  # fmt: skip


def test_sizes_that_raise_are_named():
    def fn(x):
        if x.shape[0] % 2:
            raise NotImplementedError("odd sizes")
        return x.view(2, -1)

    program = mt.program.trace(fn, meta(6), sizes={"n": (1, 99)}, dims=[["n"]])
    check(program, fn, lambda n: [meta(n)], {"n": 2}, {"n": 98})
    with pytest.raises(ValueError, match=r"n=7: it needs n%2 == 0.*test_named.py.*NotImplementedError: odd sizes"):
        program(meta(7))


@pytest.mark.slow
def test_a_loop_over_a_size_is_refused():
    def fn(x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    with pytest.raises(RuntimeError, match=r"differ.*test_named.py"):
        mt.program.trace(fn, meta(6), sizes={"n": (1, 1000)}, dims=[["n"]])


@pytest.mark.slow
def test_numbers_without_an_expression_are_refused():
    def fn(x):
        return x.narrow(0, 0, int(str(x.shape[0])[::-1]) % x.shape[0])

    with pytest.raises(RuntimeError, match=r"trace: "):
        mt.program.trace(fn, meta(60), sizes={"n": (10, 900)}, dims=[["n"]])


def test_floats_and_python_numbers():
    def fn(x, n):
        return x / x.shape[-1] ** 0.5 * (1 / n) / float(x.shape[0]) / x.shape[0], x.numel() + 1, x.shape[0] / 3

    program = mt.program.trace(fn, meta(2, 6), 4, sizes={"b": (1, 9), "s": (1, 99), "n": (1, 50)}, dims={"x": ["b", "s"], "n": "n"})
    for b, s, n in ((1, 1, 1), (9, 99, 50), (3, 7, 11)):
        assert program.at(b=b, s=s, n=n).output[1:] == (b * s + 1, b / 3)
        fresh = mt.program.trace(fn, meta(b, s), n)
        assert taken(program.at(b=b, s=s, n=n)).numbers == taken(fresh).numbers
        assert program(meta(b, s), n)[1] == b * s + 1


def test_numbers_that_a_branch_decides():
    def fn(x):
        return x + (2 if x.shape[0] > 37 else 1)

    program = mt.program.trace(fn, meta(4), sizes={"n": (1, 400)}, dims=[["n"]])
    check(program, fn, lambda n: [meta(n)], *({"n": n} for n in (1, 36, 37, 38, 39, 400)))


def test_tensors_made_of_sizes():
    def fn(x):
        return mt.tensor([x.shape[0], x.shape[1] // 2, 7], device="cpu") + 1

    program = mt.program.trace(fn, mt.ones(4, 6, device="cpu"), sizes={"a": (1, 40), "b": (1, 40)}, dims=[["a", "b"]])
    for a, b in ((1, 1), (40, 39), (7, 2)):
        assert program(mt.ones(a, b, device="cpu")).tolist() == [a + 1, b // 2 + 1, 8]
    check(program, fn, lambda a, b: [mt.ones(a, b, device="cpu")], {"a": 3, "b": 9}, {"a": 1, "b": 40})


def test_a_convolutional_model():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    ).to("meta").eval()  # fmt: skip
    program = mt.program.trace(model, meta(2, 3, 64, 64), sizes={"batch": (1, 32), "h": (32, 512), "w": (32, 512)},
                               dims=[["batch", None, "h", "w"]])  # fmt: skip
    check(program, model, lambda batch, h, w: [meta(batch, 3, h, w)], *(
        {"batch": b, "h": h, "w": w} for b, h, w in ((1, 32, 32), (3, 33, 511), (32, 512, 40), (7, 219, 220), (1, 512, 512))))  # fmt: skip
    assert "ceil(h/2)" in str(program)


def test_attention_with_a_mask():
    attention = nn.MultiheadAttention(16, 4, batch_first=True).to("meta").eval()

    def fn(x, lengths):
        mask = mt.arange(x.shape[1], device="meta") >= lengths[:, None]
        return attention(x, x, x, key_padding_mask=mask)[0]

    program = mt.program.trace(fn, meta(2, 9, 16), meta(2, dtype=mt.int64), sizes={"batch": (1, 16), "seq": (1, 400)},
                               dims={"x": ["batch", "seq", None], "lengths": ["batch"]})  # fmt: skip
    check(program, fn, lambda batch, seq: [meta(batch, seq, 16), meta(batch, dtype=mt.int64)],
          *({"batch": b, "seq": s} for b, s in ((1, 1), (1, 7), (2, 1), (16, 400), (5, 33))))  # fmt: skip


def test_a_training_step_on_cpu():
    model = nn.Linear(3, 2).to("cpu")
    before = model.weight.detach().clone()

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    program = mt.program.trace(step, mt.ones(4, 3, device="cpu"), sizes={"batch": (1, 64)}, dims={"x": ["batch", None]})
    assert model.weight.grad is None and mt.equal(model.weight, before)
    x = mt.arange(30.0, device="cpu").view(10, 3)
    loss = program(x)
    grad, model.weight.grad = model.weight.grad, None
    assert mt.equal(loss, step(x)) and mt.equal(grad, model.weight.grad)


def test_a_module_is_as_before():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.longest = 0
            self.register_buffer("table", mt.zeros(4, device="cpu"))

        def forward(self, x):
            if x.shape[0] > self.longest:
                self.longest = x.shape[0]
                self.table = mt.arange(float(x.shape[0]), device="cpu")
            return x + self.table[: x.shape[0]]

    module = Counts()
    table, state = module.table, mt.get_rng_state()
    program = mt.program.trace(module, mt.ones(3, device="cpu"), sizes={"n": (1, 50)}, dims=[["n"]])
    assert module.longest == 0 and module.table is table and mt.equal(mt.get_rng_state(), state) and gc.isenabled()
    assert mt.equal(program.at(n=5)(mt.ones(5, device="cpu")), mt.arange(1.0, 6.0, device="cpu"))


def test_nested_arguments_and_expressions_in_dims():
    def fn(batch, *, scale):
        return mt.cat([batch["x"], batch["y"]]) * scale["a"][0]

    given = {"x": meta(8, 3), "y": meta(4, 3)}
    program = mt.program.trace(fn, given, scale={"a": [meta(4 + 8, 3)]}, sizes={"n": (1, 40)},
                               dims={"batch": {"x": {0: "2*n"}, "y": {0: "n"}}, "scale": {"a": [{0: "3*n"}]}})  # fmt: skip
    assert "float32[3*n, 3]" in str(program)
    assert program({"x": meta(10, 3), "y": meta(5, 3)}, scale={"a": [meta(15, 3)]}).shape == (15, 3)
    with pytest.raises(ValueError, match=r"is 14, and must be 3\*n = 15 with n=5"):
        program({"x": meta(10, 3), "y": meta(5, 3)}, scale={"a": [meta(14, 3)]})


def test_passes_at_all_sizes():
    def fn(x):
        x.exp()
        return (x + 1) * (x + 1) if x.shape[0] > 10 else x

    program = mt.program.trace(fn, meta(20), sizes={"n": (1, 50)}, dims=[["n"]])
    with pytest.raises(TypeError, match=r"program.at\(n=...\)"):
        mt.program.dead_code(program)
    made = program.map(lambda one: mt.program.common_subexpressions(mt.program.dead_code(one)))
    for n in (5, 10, 11, 50):
        assert mt.program.equal(made.at(n=n), mt.program.common_subexpressions(mt.program.dead_code(program.at(n=n))))
    assert [len(piece.taken.rows) for piece in made.pieces] == [2, 0]


def test_source_runs_at_any_sizes():
    model = nn.Conv1d(4, 8, 3, stride=2, padding=1).to("meta")
    program = mt.program.trace(lambda x: model(x).flatten(1) / x.shape[2] ** 0.5, meta(2, 4, 16), sizes={"b": (1, 9), "s": (1, 99)},
                               dims=[["b", None, "s"]])  # fmt: skip
    scope = {}
    exec(program.code, scope)
    for b, s in ((1, 5), (3, 98), (9, 99)):
        assert scope["forward"](program.tensors, meta(b, 4, s)).shape == program(meta(b, 4, s)).shape == (b, 8 * -(-s // 2))


@pytest.mark.parametrize(("sizes", "dims", "error", "words"), [
    ({}, [["n"]], TypeError, "must be a dict"),
    ({"n": 5}, [["n"]], TypeError, "needs a range"),
    ({"n": (5, 1)}, [["n"]], ValueError, "must have values"),
    ({"n-1": (1, 5)}, [["n"]], ValueError, "identifier"),
    ({"n": (1, 5)}, None, TypeError, "dims must say"),
    ({"n": (1, 5)}, [["m"]], ValueError, "no size 'm'"),
    ({"n": (1, 5)}, [["n", "n"]], ValueError, "2 entries for 1 dimensions"),
    ({"n": (1, 5)}, [[None]], ValueError, "no dimension in dims has the size 'n'"),
    ({"n": (1, 5)}, {"y": ["n"]}, ValueError, "not an argument"),
    ({"n": (1, 5)}, {"x": {3: "n"}}, ValueError, "no dimension 3"),
    ({"n": (7, 9)}, [["n"]], ValueError, "n=4, which is not in 7..9"),
    ({"n": (1, 9)}, [["n*n"]], ValueError, "not determined"),
    ({"n": (1, 9)}, [["os.system('')"]], ValueError, "not an expression"),
])  # fmt: skip
def test_bad_descriptions(sizes, dims, error, words):
    with pytest.raises(error, match=words):
        mt.program.trace(lambda x: x + 1, meta(4), sizes=sizes, dims=dims)


def test_keyword_arguments_named_dims_stay_those_of_the_function():
    assert mt.program.trace(mt.permute, meta(2, 3), dims=(1, 0)).outputs[0].shape == (3, 2)


def test_other_arguments_than_those_of_the_trace():
    sample = mt.empty(2, 6, device="meta")
    dims = [["b", "n"], ["b", "n"]]
    program = mt.program.trace(lambda x, y: x + y, sample, sample.clone(), sizes={"b": (1, 64), "n": (1, 40)}, dims=dims)
    for args, error, words in (
        ((), TypeError, r"expected 2 positional arguments \(x, y\), got 0"),
        ((sample[0], sample[0]), ValueError, r"argument .x.: expected metatensor.float32\[b, n\]"),
        ((sample, sample[:, 1:]), ValueError, "size 1 of argument .y. is 5"),
    ):
        with pytest.raises(error, match=words):
            program(*args)


CHOSEN = {
    "by branches": lambda x: x * (1 if x.shape[0] < 100 else 2 if x.shape[0] < 200 else 3),
    "by bisection": lambda x: x * bisect.bisect([8, 16, 32], x.shape[0]),
    "by rounding": lambda x: x[: round(x.shape[0] / 2)],
    "by a root": lambda x: x[: int(x.shape[0] ** 0.5)],
    "by a logarithm": lambda x: x[: int(math.log2(x.shape[0]))],
}


@pytest.mark.parametrize("chosen", CHOSEN)
def test_numbers_that_no_expression_gives_are_refused_or_right(chosen):
    function = CHOSEN[chosen]
    try:
        program = mt.program.trace(function, mt.ones(6, device="cpu"), sizes={"n": (1, 300)}, dims=[["n"]])
    except SizesError:
        return
    for n in range(1, 301):
        x = mt.ones(n, device="cpu")
        assert mt.equal(program(x), function(x))

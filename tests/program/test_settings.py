"""A program does what was traced: whatever settings the caller has, on another device, and where gradients overwrite values."""

import io

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")


def again(program, **options):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return mt.program.load(file, **options)


def source(program):
    scope = {}
    exec(program.code, scope)
    return lambda *args, tensors=None: scope["forward"](program.tensors if tensors is None else tensors, *args)


def ways(program):
    return [program, again(program), source(program)]


@pytest.fixture
def default_dtype():
    before = mt.get_default_dtype()
    yield mt.set_default_dtype
    mt.set_default_dtype(before)


def numbers(x):
    return x * 2.5 + mt.rand(3, device="cpu") + mt.sqrt(x), mt.full((2,), 1.5, device="cpu"), mt.arange(3.0, device="cpu")


@pytest.mark.parametrize("traced, caller", [(mt.float32, mt.float64), (mt.float64, mt.float32), (mt.float32, mt.float16)])
def test_the_default_dtype_is_that_of_the_trace(traced, caller, default_dtype):
    x = mt.ones(3, dtype=mt.int64, device="cpu")
    default_dtype(traced)
    program = mt.program.trace(numbers, x)
    default_dtype(caller)
    for way in ways(program):
        assert [t.dtype for t in way(x)] == [traced] * 3
        assert mt.get_default_dtype() is caller


def test_a_default_dtype_that_changes_during_the_run(default_dtype):
    def fn(x):
        a = mt.ones(3, device="cpu")
        mt.set_default_dtype(mt.float64)
        try:
            return a, mt.ones(3, device="cpu"), mt.rand(3, device="cpu"), x * 2.5
        finally:
            mt.set_default_dtype(mt.float32)

    for way in ways(mt.program.trace(fn, mt.ones(3, device="cpu"))):
        assert [t.dtype for t in way(mt.ones(3, device="cpu"))] == [mt.float32, mt.float64, mt.float64, mt.float32]

    def ints(x):
        mt.set_default_dtype(mt.float64)
        return x * 2.5

    with pytest.raises(RuntimeError, match="the default dtype was changed during the run, and mul"):
        mt.program.trace(ints, mt.ones(3, dtype=mt.int64, device="cpu"))


def test_autocast_is_that_of_the_trace():
    model, x = nn.Linear(3, 3).to("cpu"), mt.ones(2, 3, device="cpu")
    program = mt.program.trace(model, x)
    with mt.autocast("cpu", dtype=mt.bfloat16):
        half = mt.program.trace(model, x)
        for way in ways(program):
            assert way(x).dtype is mt.float32
            assert mt.amp.is_autocast_enabled("cpu") and model(x).dtype is mt.bfloat16
    for way in ways(half):
        assert way(x).dtype is mt.bfloat16


def test_the_default_device_of_the_caller_does_not_matter():
    with mt.device("cpu"):
        program = mt.program.trace(lambda x: x + mt.ones(3) + mt.tensor([1.0, 2, 3]), mt.ones(3))
    with mt.device("meta"):
        for way in ways(program):
            assert way(mt.ones(3, device="cpu")).tolist() == [3, 4, 5]


def test_grad_modes_of_the_caller():
    model, x = nn.Linear(3, 3).to("cpu"), mt.ones(2, 3, device="cpu")
    used = mt.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        used.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        used.step()
        return loss.detach()

    program = mt.program.trace(step, x)
    before = [p.detach().clone() for p in model.parameters()]
    results = []
    for mode in (mt.enable_grad, mt.no_grad, mt.inference_mode):
        with mt.no_grad():
            for p, saved in zip(model.parameters(), before):
                p.copy_(saved)
        with mode():
            results.append((program(x).item(), [p.detach().clone().tolist() for p in model.parameters()]))
    assert results[0] == results[1] == results[2]


class Rotary(nn.Module):
    """Constants of several kinds: a buffer that is not saved, attributes, and tensors that the run makes."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.register_buffer("rates", 1 / (10000 ** (mt.arange(0, 8, 2) / 8)), persistent=False)
        self.turned, self.same = mt.arange(12.0).view(3, 4).t(), mt.full((1,), 2.0).expand(4)

    def forward(self, x):
        angles = mt.outer(mt.arange(x.shape[0], device=x.device).float(), self.rates)
        constants = self.turned.sum() + self.same.sum() + mt.tensor([1.0] * 8, device=x.device)
        return self.norm(self.layer(x)) + mt.cat([angles, angles], 1) + constants


def test_known_constants_of_a_trace_on_meta_are_computed_elsewhere():
    with mt.device("cpu"):
        real, x = Rotary().eval(), mt.rand(5, 8)
    with mt.device("meta"):
        program = mt.program.trace(Rotary().eval(), mt.empty(5, 8))
    assert {"rates", "constant0", "constant1"} <= set(program.held)
    want, state = real(x), real.state_dict()
    for one in (program, again(program), again(again(program)), again(program, device="cpu"), again(program, device="meta")):
        bound = one.bind({name: t for name, t in state.items() if name in one.held})
        assert mt.equal(bound(x), want) and mt.equal(bound(x), want)
        assert mt.equal(source(one)(x, tensors=bound.to("cpu").tensors), want)
    assert program(mt.empty(5, 8, device="meta")).is_meta
    assert 'device("meta")' not in program.code


def test_a_known_buffer_keeps_what_a_run_writes():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", mt.zeros(2))

        def forward(self, x):
            self.n += 1
            return x + self.n

    with mt.device("meta"):
        program = mt.program.trace(Counter(), mt.empty(2))
    x = mt.zeros(2, device="cpu")
    assert [program(x).tolist() for _ in range(2)] == [[2, 2], [3, 3]]  # the trace itself was a run


@pytest.mark.parametrize("device", [None, "cpu"])
def test_unknown_constants_are_named(device):
    unknown = mt.rand(4, device="meta")
    program = mt.program.trace(lambda x: x + unknown, mt.ones(4, device="meta"))
    for one in (program, again(program, device=device)):
        with pytest.raises(RuntimeError, match="constant 'constant0' is on meta and has no data, and the program runs on cpu"):
            one(mt.ones(4, device="cpu"))
        assert one.bind({"constant0": mt.ones(4, device="cpu")})(mt.ones(4, device="cpu")).tolist() == [2] * 4


def test_damaged_known_values():
    from metatensor.checkpoint import CheckpointError
    from metatensor.program import saving

    with mt.device("meta"):
        program = mt.program.trace(Rotary().eval(), mt.empty(5, 8))
    described = saving.described
    cases = (({"rates": "AAA"}, "base64"), ({"other": "AAAAAA=="}, "4 bytes"), ({"rates": "AAAAAA=="}, "needs more"), ([], "dict"))
    for known, message in cases:
        saving.described = lambda *args, known=known: ({**described(*args)[0], "known": known}, described(*args)[1])
        try:
            with pytest.raises(CheckpointError, match=message):
                again(program)
        finally:
            saving.described = described


@pytest.mark.parametrize("name", ["silu", "mish", "hardswish", "elu", "leaky_relu", "relu6", "selu", "celu", "hardtanh"])
def test_gradients_of_what_is_overwritten_use_the_values_of_each_run(name):
    layer = nn.Conv2d(3, 4, 1).to("cpu")
    function = getattr(nn.functional, name)

    def step(x):
        (gradient,) = mt.autograd.grad(function(layer(x), inplace=True).square().sum(), layer.weight)
        return gradient

    x = mt.randn(2, 3, 4, 4, device="cpu")
    program = mt.program.trace(step, x)
    assert "constant" not in program.kinds.values()
    for way in ways(program):
        assert mt.equal(way(x * -2), step(x * -2))
    forward = mt.program.trace(lambda x: function(layer(x), inplace=True), x)
    assert "clone" not in [call.op.name for call in forward.calls]


def test_copies_that_no_gradient_needs_do_not_move_reads():
    def step(x):
        a = nn.functional.silu(x * 1, inplace=True)
        n = float(a[0])
        (gradient,) = mt.autograd.grad(nn.functional.silu(x * n, inplace=True).sum(), x)
        return gradient

    x = mt.ones(3, device="cpu").requires_grad_()
    program = mt.program.trace(step, x)
    names = [call.op.name for call in program.calls]
    assert names.count("clone") == 1 and program.reads[0][0] == names.index("select") + 1
    assert mt.equal(program(x), step(x))

"""Passes on models: training steps, convolutions with batch norm, transformers; and what passes refuse."""

import io

import pytest

import metatensor as mt
from metatensor import nn
from program.cases import check_releases

pytest.importorskip("metatensor_cpu")
passes = mt.program


def rand(*shape):
    return mt.rand(*shape, device="cpu")


def names(program):
    return [call.op.name for call in program.calls]


def saved(program):
    file = io.BytesIO()
    program.save(file)
    return mt.program.load(io.BytesIO(file.getvalue()))


def training(optimizer=None):
    """Return the program of a training step, and its arguments."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, 4)).to("cpu")
    used = (optimizer or (lambda p: mt.optim.SGD(p, lr=0.1, momentum=0.9)))(model.parameters())

    def step(x, target):
        used.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        used.step()
        return loss.detach()

    given = rand(5, 8), rand(5, 4)
    step(*given)
    return mt.program.trace(step, *given), given


def outcome(program, bind, given):
    """Return the loss, the state and the gradients after a run on copies of the state."""
    state = {name: t.detach().clone() for name, t in program.tensors.items()}
    state = {name: nn.Parameter(t) if program.kinds[name] == "parameter" else t for name, t in state.items()}
    mt.manual_seed(3)
    loss = bind(state)(*given)
    return [loss, *state.values(), *(t.grad for t in state.values() if t.grad is not None)]


def assert_same(one, other):
    assert len(one) == len(other) and all(mt.equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("optimizer", [None, lambda p: mt.optim.AdamW(p, lr=0.1), lambda p: mt.optim.Adam(p, foreach=True)])
def test_functional_training_step(optimizer):
    program, given = training(optimizer)
    functional = passes.functionalize(program)
    check_releases(functional)
    writes = [call for call in functional.calls if call.writes]
    assert {call.op.name for call in writes} == {"copy_", "bernoulli_"}
    last = functional.calls[-sum(call.op.name == "copy_" for call in writes) :]
    assert all(call.op.name == "copy_" for call in last)
    assert_same(outcome(program, program.bind, given), outcome(program, functional.bind, given))
    early = passes.functionalize(program, early=True)
    check_releases(early)
    assert len(early) == len(functional)
    assert_same(outcome(program, program.bind, given), outcome(program, early.bind, given))


@pytest.mark.parametrize("change", [passes.dead_code, passes.common_subexpressions, passes.views_and_copies, passes.constant_folding,
                                    lambda p: passes.decompose(p, lambda name: False, strict=False)])  # fmt: skip
def test_training_step(change):
    program, given = training()
    changed = change(program)
    check_releases(changed)
    one, other = outcome(program, program.bind, given), outcome(program, lambda state: saved(changed).bind(state), given)
    assert len(one) == len(other) and all(mt.allclose(a, b, atol=1e-6) for a, b in zip(one, other))


def test_split_training_step():
    program, given = training()
    parts = passes.split(program, where=lambda call: call is program.calls[10] or call is program.calls[30])
    assert len(parts) == 3 and not parts[0].effects and len(parts[2].effects) == 6

    def bind(state):
        return passes.Parts(program, [part.bind({n: t for n, t in state.items() if n in part.held}) for part in parts])

    assert_same(outcome(program, program.bind, given), outcome(program, bind, given))


def test_numbers_that_were_read_stay_with_their_calls():
    def fn(x):
        (x + 1).sum().item()
        x.exp()
        return x * x.sum().item()

    program = passes.trace(fn, rand(3))
    less = passes.dead_code(program)
    assert names(less) == ["mul"] and not less.reads
    assert saved(less).reads == []
    both = passes.dead_code(passes.trace(lambda x: (x.exp(), x * x.cos().sum_to_size(1).item(), x.cos().sum_to_size(1))[1:], rand(3)))
    assert all(at <= len(both) for at, _, _ in both.reads)


def test_gradients_are_not_merged():
    model = nn.Linear(2, 2, bias=False, device="cpu")
    twin = nn.Linear(2, 2, bias=False, device="cpu")

    def fn(x):
        (model(x) + twin(x)).sum().backward()

    program = passes.trace(fn, rand(1, 2))
    less = passes.common_subexpressions(program)
    less(rand(1, 2))
    grads = [t.grad for t in less.tensors.values()]
    grads[0].add_(1)
    assert len(grads) == 2 and not mt.equal(*grads)


def test_a_call_without_results_stays():
    program = passes.trace(lambda x: (x.exp(), x + 1)[1], rand(2))
    quiet = program.replace(calls=[program.calls[0].replace(result=None), program.calls[1]])
    assert names(passes.dead_code(quiet)) == ["exp", "add"] and names(passes.dead_code(program)) == ["add"]


def test_views_of_merged_results():
    program = passes.trace(lambda x: (x.exp().view(6) + x.exp().view(6)).sin(), rand(2, 3))
    less = passes.dead_code(passes.common_subexpressions(program))
    assert names(less).count("exp") == 1 and saved(less).code == less.code
    views = [call.result for call in less.calls if call.op.name == "view"]
    assert {value.storage for value in views} == {less.calls[0].result.storage}
    x = rand(2, 3)
    assert mt.equal(less(x), program(x))


class Convolutions(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.one, self.first = nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8)
        self.two, self.second = nn.Conv2d(8, 8, 3, groups=2, padding=1, stride=2), nn.BatchNorm2d(8, affine=False)
        self.third = nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.second(self.two(self.first(self.one(x)).relu()))
        return self.third(y) + y


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_fused_batch_norm(grad, bias):
    model = Convolutions(bias).to("cpu")
    model(mt.randn(8, 3, 9, 9, device="cpu"))
    model.eval()
    x = rand(2, 3, 9, 9)
    with mt.set_grad_enabled(grad):
        program = passes.trace(model, x)
    fused = passes.fuse_batch_norm(program)
    check_releases(fused)
    assert len(fused) == len(program) - 2 and sum("norm" in name for name in names(fused)) == 1
    assert {"one.weight", "one.bias", "two.weight", "two.bias", "third.weight"} <= set(fused.held)
    assert not any(name.startswith(("first", "second")) for name in fused.held)
    assert mt.allclose(fused(x), program(x), rtol=1e-5, atol=1e-6)
    assert mt.equal(saved(fused)(x), fused(x))


def test_batch_norms_that_stay():
    conv, norm = nn.Conv1d(2, 2, 1, device="cpu"), nn.BatchNorm1d(2, device="cpu")
    x = rand(3, 2, 4)
    assert "norm" in " ".join(names(passes.fuse_batch_norm(passes.trace(lambda x: norm(conv(x)), x))))
    norm.eval()
    twice = passes.trace(lambda x: [norm(y := conv(x)), y], x)
    assert passes.fuse_batch_norm(twice) is twice
    shared = passes.trace(lambda x: norm(conv(x)) + conv(x).sin(), x)
    fused = passes.fuse_batch_norm(shared)
    assert mt.allclose(fused(x), shared(x), atol=1e-6) and sum("norm" in name for name in names(fused)) == 0


def test_constant_folding():
    table = mt.arange(6.0, device="cpu")

    def fn(x):
        mask = mt.ones(6, device="cpu").cumsum(0).cos()
        return x + mask * table.sin().flip(0) + mt.rand(6, device="cpu") + mt.zeros(6, device="cpu").add_(x)

    x = rand(6)
    program = passes.trace(fn, x)
    folded = passes.constant_folding(program)
    assert names(folded) == ["add", "rand", "add", "zeros", "add_", "add"] and set(folded.kinds.values()) == {"constant"}
    assert list(folded.held) == ["folded"]
    runs = []
    for one in (program, folded, saved(folded)):
        mt.manual_seed(1)
        runs.append(one(x))
    assert mt.equal(runs[0], runs[1]) and mt.equal(runs[0], runs[2])
    assert len(passes.constant_folding(program, limit=8)) == len(program)
    meta = passes.trace(lambda x: x + mt.arange(3, device="meta"), mt.empty(3, device="meta"))
    assert passes.constant_folding(meta) is meta


def test_decomposition_of_a_transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0, activation="gelu").to("cpu").eval()
    x = rand(2, 5, 16)
    with mt.no_grad():
        program = passes.trace(layer, x)
    parts = passes.decompose(program, lambda name: "gelu" not in name and "layer_norm" not in name)
    assert not [name for name in names(parts) if "gelu" in name or "layer_norm" in name] and len(parts) > len(program)
    check_releases(parts)
    assert mt.allclose(parts(x), program(x), atol=1e-6)
    assert {parts.modules[call.module] for call in parts.calls} == {program.modules[call.module] for call in program.calls}
    with pytest.raises(ValueError, match="without a decomposition.* view"):
        passes.decompose(program, {"matmul"})


def test_dtype_of_a_training_step():
    program, given = training()
    wide = passes.change_dtype(program, mt.float64)
    check_releases(wide)
    assert {value.dtype for value in wide.values.values() if value.dtype.is_floating_point} == {mt.float64}
    one = outcome(program, program.bind, given)
    other = outcome(wide, wide.bind, [t.double() for t in given])
    assert mt.allclose(one[0].double(), other[0], rtol=1e-5)


def test_dtype_except_for_some_calls():
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 2)).to("cpu").eval()
    x = rand(3, 8)
    with mt.no_grad():
        program = passes.trace(model, x)
    half = passes.change_dtype(program, mt.bfloat16, keep=lambda call: "softmax" in call.op.name)
    softmax = next(call for call in half.calls if "softmax" in call.op.name)
    assert softmax.result.dtype is mt.float32 and half.outputs[0].dtype is mt.bfloat16
    assert mt.allclose(half(x.bfloat16()).float(), program(x), atol=0.05)
    assert all(t.dtype is mt.bfloat16 for t in half.tensors.values())
    with pytest.raises(ValueError, match="not a floating-point dtype"):
        passes.change_dtype(program, mt.int32)


def test_split_by_module_and_by_size():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Dropout()) for _ in range(4)]).to("cpu")
    x = rand(3, 8)
    program = passes.trace(model, x)
    parts = passes.split(program, at=["1", "3"])
    assert [sorted({name[0] for name in part.held}) for part in parts] == [["0"], ["1", "2"], ["3"]]
    sized = passes.split(program, nbytes=2 * (8 * 8 + 8) * 4)
    assert [len(part.held) for part in sized] == [4, 4]
    runs = []
    for one in (program, parts, sized):
        mt.manual_seed(5)
        runs.append(one(x))
        runs.append(mt.default_generator.get_state())
    assert mt.equal(runs[0], runs[2]) and mt.equal(runs[0], runs[4]) and runs[1].tolist() == runs[3].tolist() == runs[5].tolist()
    again = passes.Parts(program, [saved(part) for part in parts])
    mt.manual_seed(5)
    assert mt.equal(runs[0], again(x))
    with pytest.raises(ValueError, match="no call of a module '7'"):
        passes.split(program, at=["7"])
    with pytest.raises(ValueError, match="one of"):
        passes.split(program)


@pytest.mark.parametrize(("fn", "words"), [
    (lambda x: (x.view(mt.int32).add_(1), x)[1], "another dtype"),
    (lambda x: (x.resize_(2, 3), x.fill_(1))[1], "resize_"),
])  # fmt: skip
def test_what_has_no_functional_form(fn, words):
    program = passes.trace(fn, rand(3))
    with pytest.raises(ValueError, match=words):
        passes.functionalize(program)


def test_a_functional_program_runs_on_meta():
    def fn(x):
        y = mt.zeros(3, 4, device=x.device)
        y[1] = x
        y.t()[2:].mul_(2)
        return y

    program = passes.functionalize(passes.trace(fn, mt.empty(4, device="meta")))
    assert not any(call.writes for call in program.calls)
    assert program(rand(4)).device.type == "cpu"


def test_training_step_with_tied_parameters():
    embedding, head = nn.Embedding(5, 4, device="cpu"), nn.Linear(4, 5, bias=False, device="cpu")
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head)

    def step(x):
        model(x).square().sum().backward()

    x = mt.tensor([0, 3], device="cpu")
    program = mt.program.trace(step, x)
    assert [effect.name for effect in program.effects] == ["0.weight"] and program.tied == {"1.weight": "0.weight"}
    want = embedding.weight.grad.clone()
    for one in (program, passes.functionalize(program), saved(program)):
        one.tensors["0.weight"].grad = None
        one(x)
        assert mt.equal(one.tensors["0.weight"].grad, want)

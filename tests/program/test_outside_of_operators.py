"""What a traced callable does besides calling operators: it is part of the program, reported, or refused."""

import copy
import pickle
import threading

import pytest

import metatensor as mt

pytest.importorskip("metatensor_cpu")
np = pytest.importorskip("numpy")


def ones(*shape, **options):
    return mt.ones(*shape, device="cpu", **options)


def filled(x):
    y = x + 1
    y.untyped_storage().fill_(0)
    return y * 1


def copied(x):
    y = x + 1
    y.untyped_storage().copy_(x.untyped_storage())
    return y * 1


def one_byte(x):
    y = x + 1
    y.untyped_storage()[3] = 64
    return y * 1


def typed(x):
    y = x + 1
    y.storage().fill_(2.0)
    y.storage()[0] = 7.0
    return y * 1


def taken_over(x):
    y = x + 1
    y.set_(x.untyped_storage())
    return y * 2


def of_a_part(x):
    y = (x + 1)[1:]
    y.untyped_storage().fill_(0)
    return y * 1


def recorded_for_gradients(x):
    w = (x * 1).requires_grad_()
    y = w + 1
    y.untyped_storage().fill_(0)
    return y * 1


@pytest.mark.parametrize("fn", [filled, copied, one_byte, typed, taken_over, of_a_part, recorded_for_gradients])
def test_writes_through_storages_are_in_the_program(fn, tmp_path):
    program = mt.program.trace(fn, ones(4))
    other = mt.arange(4.0, device="cpu") - 7
    assert mt.equal(program(other.clone()), fn(other.clone()))
    program.save(tmp_path / "p.mtp")
    assert mt.equal(mt.program.load(tmp_path / "p.mtp")(other.clone()), fn(other.clone()))
    scope = {}
    exec(program.code, scope)
    assert mt.equal(scope["forward"](program.tensors, other.clone()), fn(other.clone()))


def test_writes_through_the_storage_of_a_parameter():
    model = mt.nn.Linear(2, 2).to("cpu")

    def step(x):
        model.weight.untyped_storage().fill_(0)
        return model(x)

    program = mt.program.trace(step, ones(1, 2))
    with mt.no_grad():
        model.weight.fill_(3)
    assert mt.equal(program(ones(1, 2)), model.bias[None]) and not model.weight.any()


def test_resizing_a_storage_is_refused():
    with pytest.raises(RuntimeError, match="resize_\\(\\) of a storage is no call"):
        mt.program.trace(lambda x: (x + 1).untyped_storage().resize_(0), ones(4))
    with pytest.raises(RuntimeError, match="a slice of a storage"):
        mt.program.trace(lambda x: (x + 1).untyped_storage()[:4], ones(4))


READS = {
    "numpy": lambda x: x * float(x.numpy()[1]),
    "array": lambda x: x * float(np.asarray(x)[1]),
    "from numpy": lambda x: mt.from_numpy(x.numpy() * 2) + x,
    "memory of numpy": lambda x: x + mt.from_numpy((x + 1).numpy()),
    "buffer": lambda x: x * float(np.frombuffer(memoryview(x).cast("B"), np.float32)[1]),
    "dlpack": lambda x: mt.from_dlpack(np.from_dlpack(x + 1)) * 2,
    "tolist": lambda x: x * x.tolist()[1],
    "item": lambda x: x * x[1].item(),
    "tensor": lambda x: mt.tensor(list(x), device="cpu") * 2,
    "deep copy": lambda x: copy.deepcopy(x) * 2,
    "pickle": lambda x: pickle.loads(pickle.dumps(x + 1)) * 2,
    "byte": lambda x: x * x.untyped_storage()[3],
    "bytes": lambda x: x * x.untyped_storage().tolist()[3],
    "equal": lambda x: x if mt.equal(x, ones(4)) else x * 2,
    "allclose": lambda x: x if mt.allclose(x, ones(4)) else x * 2,
    "is_nonzero": lambda x: x if x.sum().is_nonzero() else x * 2,
}


@pytest.mark.parametrize("how", READS)
def test_values_that_leave_the_library_are_reported(how, tmp_path):
    program = mt.program.trace(READS[how], ones(4))
    assert program.reads
    assert all(0 <= at <= len(program.calls) and value.storage >= 0 for at, _, value in program.reads)
    program.save(tmp_path / "p.mtp")
    assert len(mt.program.load(tmp_path / "p.mtp").reads) == len(program.reads)


@pytest.mark.parametrize("fn", [
    lambda x: x * float(np.arange(3)[1]), lambda x: x + mt.from_numpy(np.ones(4, np.float32)),
    lambda x: x * mt.arange(4, device="cpu").numpy()[1],
])
def test_values_of_constants_are_not_reported(fn):
    assert not mt.program.trace(fn, ones(4)).reads


def test_a_kernel_that_reads_is_not_reported():
    @mt.op("outside::twice")
    def twice(x: mt.Tensor) -> mt.Spec:
        """Return twice the values."""
        return mt.Spec(x.shape, x.dtype)

    @twice.kernel("cpu")
    def twice_cpu(out, x):
        out.copy_(mt.from_numpy(x.numpy() * 2))

    program = mt.program.trace(twice, ones(4))
    assert not program.reads and [call.op.name for call in program.calls] == ["outside::twice"]
    assert program(ones(4) * 2).tolist() == [4.0] * 4


def in_a_thread(function):
    made = []
    thread = threading.Thread(target=lambda: made.append(function()))
    thread.start()
    thread.join()
    return made[0]


def test_tensors_that_other_threads_make_are_refused():
    with pytest.raises(RuntimeError, match="another thread made a tensor of shape \\[4\\]"):
        mt.program.trace(lambda x: in_a_thread(lambda: x * 2) + 1, ones(4))
    with pytest.raises(RuntimeError, match="another thread"):
        mt.program.trace(lambda x: in_a_thread(lambda: x * 2), ones(4))


def test_tensors_that_other_threads_made_before_are_constants():
    made = []
    with pytest.raises(RuntimeError, match="another thread"):
        mt.program.trace(lambda x: (made.append(in_a_thread(lambda: x * 2)), x + made[0]), ones(4))
    program = mt.program.trace(lambda x: x + made[0], ones(4))
    assert list(program.kinds.values()) == ["constant"] and program(ones(4)).tolist() == [3.0] * 4


# data -----------------------------------------------------------------------------------------------------


class Replacing(mt.nn.Module):
    """A module whose forward changes its tensors through ``data``, in the way that `kind` names."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.a, self.b = (mt.nn.Parameter(mt.arange(3.0, device="cpu") + i) for i in range(2))
        self.register_buffer("mean", mt.zeros(3, device="cpu"))

    def forward(self, x):
        return getattr(self, self.kind)(x)

    def clamped(self, x):
        self.a.data.clamp_(0.5, 1.5)
        self.mean.data = self.mean.data * 0.9 + self.a.data * 0.1
        return x * self.a + self.mean

    def swapped(self, x):
        self.a.data, self.b.data = self.b.data, self.a.data
        return x * self.a - self.b

    def of_another_dtype(self, x):
        self.a.data = self.a.data.double()
        return x * self.a

    def of_another_shape(self, x):
        self.a.data = x.sum(1, keepdim=True)
        return self.a * x

    def part_of_another(self, x):
        whole = mt.zeros(6, device=x.device)
        self.a.data = whole[1:4]
        whole.add_(x.sum())
        return x * self.a

    def copied(self, x):
        self.a.data = self.b.data.clone()
        self.a.data.add_(1)
        return x * self.a


REPLACING = ["clamped", "swapped", "of_another_dtype", "of_another_shape", "part_of_another", "copied"]


def equal_runs(model, program):
    """Assert that three runs of a program have the same results and change parameters and buffers as the model does."""
    own = {name: mt.nn.Parameter(t.detach().clone()) if program.kinds[name] == "parameter" else t.clone()
           for name, t in model.state_dict().items() if name in program.held}  # fmt: skip
    model, program = copy.deepcopy(model), program.bind(own)
    x = ones(2, 3) * 3
    for _ in range(3):
        want, got = model(x), program(x)
        assert got.dtype is want.dtype and mt.equal(got, want) and got.requires_grad == want.requires_grad
        for name, t in model.state_dict().items():
            if name in program.tensors:
                assert program.tensors[name].dtype is t.dtype and mt.equal(program.tensors[name], t)


@pytest.mark.parametrize("kind", REPLACING)
def test_data_is_read_and_assigned_as_in_the_trace(kind, tmp_path):
    model = Replacing(kind)
    program = mt.program.trace(copy.deepcopy(model), ones(2, 3))
    assert "constant" not in program.kinds.values()
    equal_runs(model, program)
    program.save(tmp_path / "p.mtp", parameters=False)
    equal_runs(model, mt.program.load(tmp_path / "p.mtp"))
    scope = {}
    exec(program.code, scope)
    program = program.bind({name: t for name, t in model.state_dict().items() if name in program.held})
    want = copy.deepcopy(model)(ones(2, 3))
    assert mt.equal(scope["forward"](program.tensors, ones(2, 3)), want)


@pytest.mark.parametrize("one", [mt.program.dead_code, mt.program.common_subexpressions, mt.program.views_and_copies,
                                 mt.program.constant_folding, mt.program.functionalize])  # fmt: skip
@pytest.mark.parametrize("kind", REPLACING)
def test_passes_keep_assignments_of_data(kind, one):
    model = Replacing(kind)
    with mt.no_grad():
        made = one(mt.program.trace(copy.deepcopy(model), ones(2, 3)))
        equal_runs(model, made)


def test_gradients_do_not_see_what_is_done_to_data():
    def fn(x):
        y = x * 2
        z = y * y
        y.data.mul_(3)
        return z + y

    x = ones(3).requires_grad_()
    program = mt.program.trace(fn, x)
    (want,), (got,) = (mt.autograd.grad(f(x).sum(), x) for f in (fn, program))
    assert mt.equal(want, got)


def test_a_loop_that_assigns_data_trains():
    def model():
        mt.manual_seed(0)
        return mt.nn.Linear(3, 2, device="cpu")

    def step_of(model):
        def step(x):
            loss = model(x).square().sum()
            for p, g in zip(model.parameters(), mt.autograd.grad(loss, list(model.parameters()))):
                p.data = p.data - 0.1 * g
            return loss.detach()

        return step

    real, traced = model(), model()
    program = mt.program.trace(step_of(traced), ones(1, 3)).bind({f"{n}": p for n, p in model().named_parameters()})
    assert [program(ones(1, 3)).item() for _ in range(4)] == [step_of(real)(ones(1, 3)).item() for _ in range(4)]


def test_functionalize_keeps_other_memory_of_a_parameter():
    p = mt.nn.Parameter(ones(3))

    def fn(x):
        with mt.no_grad():
            p.set_(p - 0.5 * x)
            return p * 2

    made = mt.program.functionalize(mt.program.trace(fn, ones(3)))
    with mt.no_grad():
        p.fill_(1)
    assert made(ones(3)).tolist() == [1, 1, 1] and p.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("fn", [
    lambda x, p: (p.data.clamp_(-0.1, 0.1), p * x)[1],
    lambda x, p: (p.detach().mul_(2), p * x)[1],
    lambda x, p: (mt.no_grad()(p.mul_)(2), p * x)[1],
    lambda x, p: (setattr(p, "data", p.data * 2), p * x)[1],
])  # fmt: skip
def test_functionalize_refuses_to_lose_a_gradient(fn):
    def parameter():
        return mt.nn.Parameter(ones(3))

    with pytest.raises(ValueError, match="written to without gradients, and gradients are recorded here"):
        mt.program.functionalize(mt.program.trace(fn, ones(3), parameter()))
    with mt.no_grad():
        program = mt.program.functionalize(mt.program.trace(fn, ones(3), parameter()))
        mine, other = parameter(), parameter()
        assert mt.equal(program(ones(3), mine), fn(ones(3), other)) and mt.equal(mine, other)


# Generators ------------------------------------------------------------------------------------------------


def test_generators_that_the_run_creates_give_the_same_numbers_each_time(tmp_path):
    def fn(x):
        generator = mt.Generator().manual_seed(3)
        return x + mt.rand(4, generator=generator, device="cpu"), mt.randperm(4, generator=mt.Generator(), device="cpu"), mt.rand_like(x)

    program = mt.program.trace(fn, ones(4))
    program.save(tmp_path / "p.mtp")
    scope = {}
    exec(program.code, scope)
    for run in (program, mt.program.load(tmp_path / "p.mtp"), lambda x: scope["forward"]({}, x)):
        for seed in (1, 2):
            mt.manual_seed(seed)
            want = fn(ones(4))
            mt.manual_seed(seed)
            assert all(mt.equal(a, b) for a, b in zip(want, run(ones(4)), strict=True))


OUTER = mt.Generator()


@pytest.mark.parametrize("fn", [
    lambda x: (mt.manual_seed(0), mt.rand_like(x))[1],
    lambda x: (mt.rand_like(x), mt.manual_seed(0))[0],
    lambda x: mt.rand(4, generator=OUTER.manual_seed(1)),
    lambda x: (OUTER.set_state(mt.Generator().manual_seed(5).get_state()), x)[1],
], ids=["before a draw", "after a draw", "generator", "state"])  # fmt: skip
def test_setting_seeds_is_refused(fn):
    mt.manual_seed(7)
    OUTER.manual_seed(8)
    with pytest.raises(RuntimeError, match="trace: the seed of a random number generator was changed during the run"):
        mt.program.trace(fn, ones(4))


def test_random_seeds_and_copies_of_generators_are_refused():
    with pytest.raises(RuntimeError, match=r"seed\(\) sets a random seed"):
        mt.program.trace(lambda x: (mt.seed(), x)[1], ones(4))
    with pytest.raises(RuntimeError, match=r"clone_state\(\) of a generator"):
        mt.program.trace(lambda x: mt.rand(4, generator=OUTER.clone_state()), ones(4))


def test_states_may_be_restored():
    def fn(x):
        before = mt.get_rng_state()
        y = mt.rand_like(x)
        mt.set_rng_state(before)
        return y, mt.rand_like(x)

    program = mt.program.trace(fn, ones(4))
    mt.manual_seed(3)
    want, state = fn(ones(4)), mt.get_rng_state()
    mt.manual_seed(3)
    got = program(ones(4))
    assert mt.equal(want[0], want[1]) and all(map(mt.equal, want, got)) and mt.equal(state, mt.get_rng_state())


# State ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [mt.nn.Tanh(), mt.nn.Sigmoid(), mt.nn.ReLU(), mt.nn.Softmax(-1)], ids=lambda m: type(m).__name__)
def test_recomputation_is_in_the_program(last):
    """The second call of a checkpointed function ends inside of the operator that saves the last tensor."""
    layers = mt.nn.Sequential(mt.nn.Linear(3, 3, device="cpu"), mt.nn.Dropout(), last)

    def step(x):
        layers.zero_grad()
        mt.utils.checkpoint.checkpoint(layers, x, use_reentrant=False).square().sum().backward()
        return layers[0].weight.grad.clone()

    program = mt.program.trace(step, ones(2, 3))
    assert "constant" not in [kind for name, kind in program.kinds.items() if program.held[name].dtype.is_floating_point]
    x = mt.arange(6.0, device="cpu").view(2, 3)
    mt.manual_seed(1)
    want = step(x)
    mt.manual_seed(1)
    assert mt.equal(program(x), want)


def test_a_program_continues_from_the_buffers_that_the_trace_has_replaced():
    class Counting(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", mt.zeros((), device="cpu"))
            self.register_buffer("shape", mt.zeros(1, device="cpu"))

        def forward(self, x):
            self.n = self.n + 1
            self.shape = mt.cat((self.shape, self.n[None]))
            return x * self.n

    model = Counting()
    program = mt.program.trace(model, ones(1))
    assert program(ones(1)).item() == 2 and program(ones(1)).item() == 3
    assert model.n.item() == 1 and model.shape.shape == (2,)


def test_programs_with_random_numbers_run_inside_of_a_trace():
    inner = mt.program.trace(lambda x: mt.nn.functional.dropout(x, 0.5), ones(8))

    def fn(x):
        return mt.rand_like(x), inner(x) + inner(x), mt.rand_like(x)

    program = mt.program.trace(fn, ones(8))
    for seed in (1, 2):
        mt.manual_seed(seed)
        want, state = fn(ones(8)), mt.get_rng_state()
        mt.manual_seed(seed)
        assert all(map(mt.equal, want, program(ones(8)))) and mt.equal(state, mt.get_rng_state())


def test_tied_parameters_of_which_one_is_replaced_are_refused():
    class Model(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = mt.nn.Parameter(ones(3))

        def forward(self, x):
            self.a = mt.nn.Parameter(self.a * 2)
            return x * self.a + self.b

    with pytest.raises(RuntimeError, match="'a' and 'b' were one tensor before the run"):
        mt.program.trace(Model(), ones(3))

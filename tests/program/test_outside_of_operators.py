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


def test_an_assignment_to_data_is_refused():
    layer = mt.nn.Linear(2, 2, device="meta")

    def step(x):
        layer.weight.data = layer.weight.data * 0.5
        return layer(x)

    with pytest.raises(RuntimeError, match="an assignment to .data"):
        mt.program.trace(step, mt.empty(1, 2, device="meta"))

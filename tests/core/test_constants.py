"""Small tensors on meta that are made of constants keep their values."""

import copy
import gc
import pickle
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor.deferred import is_constant, keep_constants, known
from metatensor.plugins import device_types

needs_cpu = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


@pytest.fixture(params=["cpu", "host"])
def way(request, monkeypatch):
    """Compute values on the cpu device, or with Python's numbers."""
    if request.param == "host":
        monkeypatch.setattr(known, "_has_cpu", lambda: False)
    elif "cpu" not in device_types():
        pytest.skip("the cpu plugin is not installed")
    return request.param


@pytest.fixture(autouse=True)
def on_meta():
    with mt.device("meta"):
        yield


def unknown(tensor):
    with pytest.raises(mt.DataDependentError):
        tensor.tolist()
    return not is_constant(tensor)


class TestWhereValuesAreKept:
    def test_the_default_device(self, way):
        assert [x.item() for x in mt.linspace(0, 1, 5)] == [0, 0.25, 0.5, 0.75, 1]
        assert mt.linspace(0, 1, 5).is_meta

    def test_set_default_device(self, way):
        before = mt.get_default_device()
        with mt.device("cpu"):
            assert unknown(mt.zeros(2, device="meta"))
            mt.set_default_device("meta")
            assert mt.zeros(2).tolist() == [0, 0]
            mt.set_default_device("cpu")
            assert unknown(mt.zeros(2, device="meta"))
        assert mt.get_default_device() == before

    def test_not_by_a_device_argument_elsewhere(self):
        with mt.device("cpu"):
            assert unknown(mt.arange(3, device="meta"))
            assert unknown(mt.tensor([1, 2], device="meta"))
            assert unknown(mt.zeros(2, device="meta") + 1)

    def test_keep_constants(self, way):
        with mt.device("cpu"):
            with keep_constants():
                made = mt.arange(3, device="meta")
                like = mt.zeros_like(mt.empty(2, device="meta").normal_())
            assert made.tolist() == [0, 1, 2] and like.tolist() == [0, 0]
            assert (made + 1).tolist() == [1, 2, 3]  # a value once known stays known
            assert unknown(mt.arange(3, device="meta"))

        @keep_constants()
        def function():
            return mt.ones(2, device="meta")

        assert function().tolist() == [1, 1]

    def test_other_threads_have_their_own_default(self):
        found = []

        def run():
            found.append(is_constant(mt.zeros(2, device="meta")))
            with mt.device("meta"):
                found.append(is_constant(mt.zeros(2)))
                found.append(is_constant(mt.zeros(2, device="meta")))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert found == [False, True, True]

    def test_traces(self, way):
        def function(x):
            rates = mt.linspace(0, 1, x.shape[0], device=x.device)
            return x * rates.tolist()[-1] if bool((rates > 0.5).any()) else x

        with mt.device("cpu"):
            program = mt.program.trace(function, mt.empty(3, device="meta"))
        assert [call.op.name for call in program.calls][-1] == "mul"
        assert not program.reads  # the number does not depend on the input

    def test_estimates(self, way):
        class Model(mt.nn.Module):
            def forward(self, x):
                for n in mt.arange(1, 4, device=x.device):
                    x = x.repeat_interleave(int(n), 0)
                return x

        with mt.device("cpu"):
            assert mt.analysis.estimate(Model(), mt.empty(2, device="meta")).output == "float32[12]"
            assert mt.analysis.check(Model(), mt.empty(2, device="meta"))


class TestValues:
    @pytest.mark.parametrize("make", [
        lambda: mt.tensor([[1, 2], [3, 4]]), lambda: mt.tensor(1.5), lambda: mt.tensor([True, False]), lambda: mt.arange(7),
        lambda: mt.arange(1, 9, 2), lambda: mt.arange(0.5, 3.0), lambda: mt.linspace(0, 0.1, 24), lambda: mt.zeros(2, 3),
        lambda: mt.ones(3),
        lambda: mt.full((2,), 7), lambda: mt.eye(3), lambda: mt.zeros((), dtype=mt.bfloat16), lambda: mt.full((3,), 0.1, dtype=mt.float16),
        lambda: mt.ones_like(mt.rand(3)), lambda: mt.rand(3).new_zeros(2), lambda: mt.rand(3).new_full((2,), 5),
        lambda: mt.empty(3).fill_(2), lambda: mt.empty(3).zero_(), lambda: mt.empty(3).copy_(mt.arange(3)),
        lambda: mt.as_tensor([1, 2]), lambda: mt.scalar_tensor(3), lambda: mt.rand(2).new_tensor([4, 5]), lambda: mt.zeros(0),
    ])  # fmt: skip
    def test_factories(self, way, make):
        made = make()
        with mt.device("cpu"):
            expected = make() if "cpu" in device_types() else None
        assert made.is_meta
        if expected is not None:
            assert made.tolist() == expected.tolist()

    @pytest.mark.parametrize("function", [
        lambda t: t + 1, lambda t: 2 - t, lambda t: t * t, lambda t: t / 3, lambda t: t // 2, lambda t: t % 3, lambda t: t**2, lambda t: -t,
        lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.sum(-1, keepdim=True), lambda t: t.prod(), lambda t: t.max(), lambda t: t.min(),
        lambda t: t.amax(1), lambda t: t.argmax(), lambda t: t.argmin(1), lambda t: t.max(1).values, lambda t: t.max(1)[1],
        lambda t: t.any(),
        lambda t: t.all(0), lambda t: t > 2, lambda t: t == t[0], lambda t: t.cumsum(1), lambda t: t.T, lambda t: t[1], lambda t: t[:, 1:],
        lambda t: t[t > 2], lambda t: t[[0, 1, 0]], lambda t: t[mt.tensor([1, 0])], lambda t: t.reshape(-1), lambda t: t.flip(0),
        lambda t: mt.cat([t, t], 1), lambda t: mt.stack([t, t]), lambda t: t.repeat(2, 2), lambda t: mt.where(t > 2, t, 0),
        lambda t: t.nonzero(), lambda t: t.unique(), lambda t: t.clamp(1, 3), lambda t: t.abs(), lambda t: t.sign(), lambda t: t.tril(),
        lambda t: t.float(), lambda t: t.bool(), lambda t: t.to(mt.int32), lambda t: t.float().round(), lambda t: t.float().mean(),
        lambda t: t.float() @ t.float().T, lambda t: t.masked_fill(t > 2, 9), lambda t: t.masked_select(t > 2), lambda t: t.expand(2, 2, 3),
        lambda t: (t & 1) | 2, lambda t: ~t, lambda t: t.sort(descending=False)[0], lambda t: t.gather(1, mt.zeros(2, 1, dtype=mt.int64)),
        lambda t: t.index_select(0, mt.tensor([1])), lambda t: t.repeat_interleave(2, 0),
        lambda t: mt.repeat_interleave(mt.tensor([1, 0, 2])),
        lambda t: t.contiguous(), lambda t: t.T.contiguous(), lambda t: t.clone(), lambda t: t.detach(), lambda t: mt.bincount(t.flatten()),
        lambda t: t.unbind()[1], lambda t: t.chunk(3, 1)[2], lambda t: mt.nn.functional.one_hot(t[0], 5), lambda t: t.logical_not(),
        lambda t: t.count_nonzero(), lambda t: mt.outer(t[0], t[1]), lambda t: t.diff(), lambda t: t.remainder(2),
        lambda t: t.float().sqrt(),
    ])  # fmt: skip
    def test_operators(self, way, function):
        made = function(mt.tensor([[3, 0, 1], [2, 4, 2]]))
        with mt.device("cpu"):
            expected = function(mt.tensor([[3, 0, 1], [2, 4, 2]], device="cpu")) if "cpu" in device_types() else None
        assert made.is_meta
        if expected is not None:
            assert made.tolist() == expected.tolist() and made.dtype is expected.dtype

    @pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "rsqrt", "sin", "log2", "expm1"])
    def test_functions_of_real_numbers(self, way, name):
        found = getattr(mt.tensor([0.5, 1.5]), name)().tolist()
        with mt.device("cpu"):
            if "cpu" in device_types():
                assert found == pytest.approx(getattr(mt.tensor([0.5, 1.5], device="cpu"), name)().tolist(), rel=2e-7)

    def test_numbers(self, way):
        t = mt.arange(4)
        assert int(t.sum()) == 6 and float(t[1]) == 1.0 and bool((t > 2).any()) and not t[0] and [1, 2, 3][t[1]] == 2
        assert f"{mt.tensor(0.5):.2f}" == "0.50" and 3 in t and mt.equal(t, mt.arange(4)) and not mt.equal(t, t + 1)
        assert list(range(int(t[3]))) == [0, 1, 2] and mt.allclose(t.float(), t + 1e-9)

    def test_sizes_that_follow_from_values(self, way):
        mask = mt.tensor([True, False, True])
        x = mt.rand(3, 8)
        assert x[mask].shape == (2, 8) and unknown(x[mask])
        assert x.repeat_interleave(mt.tensor([1, 0, 3]), 0).shape == (4, 8)
        assert [part.shape[0] for part in x.split(mt.tensor([1, 2]).tolist())] == [1, 2]
        assert x[mt.tensor(1)].shape == (8,)

    def test_views_of_conjugates(self):
        if "cpu" in device_types():
            t = mt.tensor([1 + 2j, 3 - 1j])
            assert t.conj().tolist() == [1 - 2j, 3 + 1j] and t.conj().imag.tolist() == [-2, 1] and t.imag.tolist() == [2, -1]

    def test_a_large_tensor_has_none(self):
        assert is_constant(mt.zeros(1024, dtype=mt.int64)) and unknown(mt.zeros(1025, dtype=mt.int64))
        assert unknown(mt.zeros(2, 3).expand(1000, 2, 3).clone()) and unknown(mt.tensor([0.0] * 3000))
        assert unknown(mt.zeros(4096).sum())

    def test_random_numbers_have_none(self):
        for made in (mt.rand(2), mt.randn(2), mt.randint(3, (2,)), mt.randperm(3), mt.zeros(2).normal_(), mt.ones(2).bernoulli_(),
                     mt.bernoulli(mt.zeros(2)), mt.nn.functional.dropout(mt.ones(2)), mt.ones(2) * mt.rand(2), mt.ones(2).multinomial(1),
                     mt.empty(2), mt.empty_like(mt.zeros(2)), mt.zeros(2).new_empty(2)):  # fmt: skip
            assert unknown(made)

    def test_an_operator_without_a_kernel_here(self, monkeypatch):
        monkeypatch.setattr(known, "_has_cpu", lambda: False)
        with pytest.raises(mt.DataDependentError, match="erf.*metatensor-cpu"):
            mt.tensor([0.5]).erf().item()
        with pytest.raises(mt.DataDependentError, match="unique_consecutive"):
            mt.arange(3).unique_consecutive()

    def test_custom_operators_have_none(self):
        @mt.op("constants_test::twice")
        def twice(input: mt.Tensor) -> mt.Tensor:
            return mt.empty_like(input)

        assert unknown(mt.ops.constants_test.twice(mt.ones(2)))


class TestWrites:
    def test_known_writes(self, way):
        t = mt.zeros(2, 3)
        t[0, 1] = 5
        t[1] = mt.arange(3)
        t += 1
        t.mul_(2)
        t[:, 2].fill_(7)
        t[t == 7] = 8
        assert t.tolist() == [[2, 12, 8], [2, 4, 8]]
        assert t.unsqueeze_(0).tolist() == [[[2, 12, 8], [2, 4, 8]]]
        t.copy_(mt.ones(3))
        assert t.sum().item() == 6
        assert t.zero_().sum() == 0

    def test_a_view_sees_a_write(self, way):
        t = mt.zeros(4)
        view, row = t.reshape(2, 2), t[1:3]
        view[0] = 3
        assert row.tolist() == [3, 0] and t.tolist() == [3, 3, 0, 0]
        row += 1
        assert view.tolist() == [[3, 4], [1, 0]]

    def test_what_was_made_before_a_write_keeps_its_values(self, way):
        t = mt.ones(2)
        before, alias = t + 1, t.detach()
        t += 5
        assert before.tolist() == [2, 2] and alias.tolist() == [6, 6]

    @pytest.mark.parametrize("write", [
        lambda t, x: t.add_(x), lambda t, x: t.copy_(x), lambda t, x: t.__setitem__(0, x[0]), lambda t, x: t[1:].copy_(x[1:]),
        lambda t, x: t.view(-1).mul_(x), lambda t, x: t.detach().add_(x), lambda t, x: t.data.add_(x), lambda t, x: t.normal_(),
        lambda t, x: mt.add(x, x, out=t), lambda t, x: t.untyped_storage().copy_(x.untyped_storage()),
        lambda t, x: t.masked_fill_(x > 0, 1),
        lambda t, x: t.addcmul_(x, x), lambda t, x: t.index_add_(0, mt.tensor([0]), x[:1]), lambda t, x: t.resize_(3).add_(1),
        lambda t, x: t.as_strided((1,), (1,), 1).uniform_(), lambda t, x: t.lerp_(x, 0.5),
        lambda t, x: mt.nn.init.uniform_(t), lambda t, x: mt.nn.functional.dropout(t, inplace=True),
        lambda t, x: t.untyped_storage().resize_(8),
        lambda t, x: t.view(mt.int32).add_(x.view(mt.int32)), lambda t, x: setattr(t, "data", x), lambda t, x: t.set_(x),
        lambda t, x: mt.nn.functional.batch_norm(x.reshape(1, 2, 1).expand(4, 2, 3), t, mt.ones(2), training=True),
    ])  # fmt: skip
    def test_unknown_writes_forget(self, write):
        t, x = mt.zeros(2), mt.rand(2)
        view = t[:1]
        after = t.detach()
        write(t, x)
        assert not is_constant(t) or t.tolist() == [1, 1, 1]
        assert not is_constant(after) or after.untyped_storage() is not t.untyped_storage() or t.tolist() == after.tolist()
        assert not (is_constant(view) and view.untyped_storage() is t.untyped_storage())

    @pytest.mark.parametrize("write", [
        lambda t: t.index_put_((mt.tensor([0]),), mt.tensor([1.0])), lambda t: t.__setitem__(mt.tensor([0]), 1.0),
        lambda t: t.add_(mt.ones(2)), lambda t: t.masked_fill_(mt.tensor([True, False]), 3), lambda t: t[:1].copy_(mt.ones(1)),
        lambda t: t.scatter_(0, mt.tensor([0]), mt.ones(1)), lambda t: t.index_fill_(0, mt.tensor([1]), 2), lambda t: t.mul_(mt.tensor(0)),
        lambda t: mt.nn.functional.embedding(mt.tensor([0]), t.view(1, 2), max_norm=0.1), lambda t: t[0].fill_(mt.tensor(1.0)),
        lambda t: t.index_copy_(0, mt.tensor([0]), mt.ones(1)), lambda t: t.clamp_(mt.zeros(2), mt.ones(2)),
        lambda t: t.where(mt.tensor([True, False]), mt.ones(2)), lambda t: t.addmm_(mt.ones(2, 1), mt.ones(1, 2)) if t.dim() == 2 else t,
    ])  # fmt: skip
    def test_known_writes_to_unknown_memory(self, write):
        for t in (mt.rand(2), mt.empty(2), mt.zeros(2).add_(mt.rand(2))):
            write(t)
            assert not is_constant(t)

    def test_operators_that_write_to_a_table(self, way):
        table = mt.ones(3, 2)
        if way == "cpu":
            mt.nn.functional.embedding(mt.tensor([0, 1]), table, max_norm=0.1)
            assert table[1].tolist() == pytest.approx([0.0707, 0.0707], rel=1e-3) and table[2].tolist() == [1, 1]
            mean, var = mt.zeros(2), mt.ones(2)
            mt.nn.functional.batch_norm(mt.arange(8.0).reshape(4, 2).requires_grad_(), mean, var, training=True)
            assert mean.tolist() == pytest.approx([0.3, 0.4])

    def test_a_write_of_everything_is_known_again(self, way):
        t = mt.rand(2)
        assert unknown(t)
        t.copy_(mt.arange(2))
        assert t.tolist() == [0, 1]
        t.add_(mt.rand(2))
        t[:1].copy_(mt.arange(1))
        assert unknown(t)

    def test_bytes(self, way):
        t = mt.zeros(2, dtype=mt.int16)
        t.untyped_storage().fill_(1)
        assert t.tolist() == [257, 257]

    def test_out(self, way):
        out = mt.zeros(2)
        mt.add(mt.ones(2), 1, out=out)
        assert out.tolist() == [2, 2]

    def test_several_results(self, way):
        values, places = mt.tensor([3.0, 1.0, 2.0]).sort()
        values[0] = 9
        assert places.tolist() == [1, 2, 0] and values.tolist() == [9, 2, 3]


class TestGradients:
    def test_parameters(self, way):
        scale = mt.nn.Parameter(mt.tensor(2.0))
        assert scale.item() == 2 and (scale * 3).item() == 6 and scale.requires_grad
        (scale * scale).backward()
        assert scale.grad.shape == () and scale.item() == 2
        optimizer = mt.optim.SGD([scale], lr=0.1)
        scale.grad = mt.rand(())
        optimizer.step()
        assert unknown(scale)

    def test_gradients_of_constants(self, way):
        x = mt.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        assert not is_constant(x.grad) or x.grad.tolist() == [2, 4]

    def test_accumulation(self):
        x = mt.tensor([1.0, 2.0], requires_grad=True)
        for _ in range(2):
            (x * mt.rand(2)).sum().backward()
        assert unknown(x.grad)

    def test_batch_norm_and_training(self):
        model = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.BatchNorm1d(4))
        assert model[1].num_batches_tracked.item() == 0
        model(mt.rand(8, 4)).sum().backward()
        assert unknown(model[1].running_mean)
        assert model[1].num_batches_tracked.item() == 1


class TestCopies:
    def test_deep_copies(self, way):
        t = mt.arange(3)
        made, cloned = copy.deepcopy(t), t.untyped_storage().clone()
        t += 1
        assert made.tolist() == [0, 1, 2] and (made + 1).tolist() == [1, 2, 3] and cloned.nbytes() == 24

    def test_pickles_have_none(self):
        assert not is_constant(pickle.loads(pickle.dumps(mt.arange(3))))

    def test_data_is_copied_to_meta(self, way):
        if "cpu" in device_types():
            source = mt.tensor([1, 2], device="cpu")
            made = source.to("meta")
            source += 1
            assert made.tolist() == [1, 2]

    def test_deferred_and_fake_tensors_are_as_before(self):
        if "cpu" in device_types():
            with mt.deferred_init(), mt.device("cpu"):
                assert mt.is_deferred(mt.zeros(2)) and not mt.is_deferred(mt.zeros(2, device="meta"))
            with mt.FakeTensorMode(), mt.device("cpu"):
                assert mt.arange(3).tolist() == [0, 1, 2]
        assert not mt.is_deferred(mt.zeros(2))

    def test_to_empty_still_loses_values(self):
        layer = mt.nn.Module()
        layer.register_buffer("table", mt.arange(3), persistent=False)
        if "cpu" in device_types():
            with pytest.warns(UserWarning, match="table"):
                layer.to_empty(device="cpu")
        with pytest.raises(NotImplementedError, match="no data"):
            mt.arange(3).to("cpu")


class TestWatchers:
    def test_memory_is_that_of_the_tensors(self, way):
        with mt.analysis.MemoryTracker() as memory:
            t = mt.arange(4)
            assert (t + 1).tolist() == [1, 2, 3, 4]
            assert memory.count == 2 and memory.current == 32
            t.nonzero()
        assert memory.count == 3

    def test_modes_see_nothing_of_it(self, way):
        seen = []

        class Mode(mt.DispatchMode):
            def dispatch(self, op, args, kwargs):
                seen.append(op.name)
                return op(*args, **kwargs)

        with Mode():
            t = mt.arange(4)
            assert (t * 2).tolist() == [0, 2, 4, 6]
        assert seen == ["arange", "mul", "tolist"]

    @needs_cpu
    def test_settings_of_the_thread_do_not_matter(self):
        t = (mt.arange(4).float() * 0.1) @ mt.ones(4)
        with mt.autocast("cpu"), mt.inference_mode(), mt.assert_no_materialization():
            assert t.item() == pytest.approx(0.6)
        assert not mt.is_inference_mode_enabled() and mt.get_default_device().type == "meta"


class TestGrowth:
    def test_long_chains(self, way):
        t = mt.zeros((), dtype=mt.int64)
        for _ in range(1000):
            t += 1
        for _ in range(1000):
            t = t + 1
        assert t.item() == 2000

    def test_reading_in_a_loop(self, way):
        t = mt.zeros((), dtype=mt.int64)
        assert [(t := t + 1).item() for _ in range(300)] == list(range(1, 301))

    @pytest.mark.slow
    def test_nothing_grows(self):
        t, other = mt.zeros(2), mt.ones(2)

        def work(n):
            for _ in range(n):
                t.add_(other)
                other.sub_(t).mul_(0)
                mt.arange(8).sum()

        work(500)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        work(2000)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        gc.enable()
        assert after - before < 100_000

    def test_nothing_is_kept_alive(self):
        t = mt.arange(3)
        storage = t.untyped_storage()
        made = t + 1
        del t
        import sys

        assert sys.getrefcount(storage) == 2 and made.tolist() == [1, 2, 3]

    def test_threads(self):
        shared = sum((mt.arange(50) for _ in range(40)), mt.zeros(50, dtype=mt.int64))
        found = []

        def run():
            with mt.device("meta"):
                found.extend((shared + 1).tolist()[1] for _ in range(20))

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [41] * 160


# Random programs --------------------------------------------------------------------------------------

_MAKES = [
    lambda: mt.arange(6).reshape(2, 3), lambda: mt.ones(2, 3, dtype=mt.int64), lambda: mt.tensor([[1, 0, 2], [4, 5, 3]]),
    lambda: mt.full((2, 3), 3), lambda: mt.arange(6).reshape(3, 2).T, lambda: mt.eye(2, 3, dtype=mt.int64),
    lambda: mt.zeros(2, 3, dtype=mt.int64), lambda: mt.arange(12).reshape(2, 6)[:, ::2],
]  # fmt: skip
_STEPS = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "view": lambda a, b: a.T.T, "flip": lambda a, b: a.flip(1),
    "row": lambda a, b: a[:1].expand(2, 3), "where": lambda a, b: mt.where(a > b, a, b), "clone": lambda a, b: a.clone(),
    "cumsum": lambda a, b: a.cumsum(1), "sort": lambda a, b: a.sort(1)[0], "index": lambda a, b: a[mt.tensor([1, 0], device=a.device)],
    "half": lambda a, b: (a.float() / 2).long(), "take": lambda a, b: a[:, a[0] % 3], "max": lambda a, b: mt.maximum(a, b.amax(0)),
    "a+=b": lambda a, b: a.add_(b) if a.stride(0) else a, "a*=2": lambda a, b: a.mul_(2) if a.stride(0) else a,
    "a[0]=b[1]": lambda a, b: (a.__setitem__(0, b[1].clone()), a)[1] if a.stride(0) else a,
    "a[:,1]=7": lambda a, b: (a.__setitem__((slice(None), 1), 7), a)[1] if a.stride(0) else a,
    "copy": lambda a, b: a.copy_(b.clone()) if a.stride(0) else a, "zero": lambda a, b: a.zero_() if a.stride(0) else a,
    "out": lambda a, b: mt.add(b.clone(), 1, out=a) if a.stride(0) else a, "detach": lambda a, b: a.detach(),
    "mask": lambda a, b: (a.__setitem__(a > 3, 1), a)[1] if a.stride(0) else a, "clamp": lambda a, b: a.clamp_(0, 99) if a.stride(0) else a,
    "put": lambda a, b: (a.__setitem__(mt.tensor([1], device=a.device), b[:1].clone()), a)[1] if a.stride(0) else a,
    "unknown": None,
}  # fmt: skip


def _run(device, makes, steps):
    """Return the tensors of a program, and which may depend on unknown numbers."""
    with mt.device(device):
        tensors = [_MAKES[i]() for i in makes]
        for name, i, j in steps:
            a, b = tensors[i % len(tensors)], tensors[j % len(tensors)]
            if name == "unknown":
                if a.stride(0):
                    a.add_(mt.randint(1, (2, 3)))  # zeros, but drawn
            else:
                tensors.append(_STEPS[name](a, b))
        return tensors


@pytest.mark.slow
@needs_cpu
@settings(max_examples=150, deadline=None)
@given(makes=st.lists(st.integers(0, len(_MAKES) - 1), min_size=1, max_size=3),
       steps=st.lists(st.tuples(st.sampled_from(sorted(_STEPS)), st.integers(0, 9), st.integers(0, 9)), max_size=14),
       host=st.booleans())  # fmt: skip
def test_random_programs_have_the_values_of_the_cpu(makes, steps, host):
    drawn = any(name == "unknown" for name, *_ in steps)
    expected = _run("cpu", makes, steps)
    has_cpu = known._has_cpu
    try:
        if host:
            known._has_cpu = lambda: False
        found = _run("meta", makes, steps)
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and a.stride() == b.stride()
            if is_constant(a) or not drawn:
                assert a.tolist() == b.tolist()
    except mt.DataDependentError:
        if not drawn:
            raise  # a mask of unknown values
    finally:
        known._has_cpu = has_cpu


def test_the_default_dtype_is_that_of_the_call():
    before = mt.get_default_dtype()
    try:
        with mt.device("meta"):
            mt.set_default_dtype(mt.float64)
            wide, third = mt.full((1,), 0.1), mt.tensor([1, 2]) / 3
            mt.set_default_dtype(mt.float32)
            narrow = mt.full((1,), 0.1)
            assert (wide.item(), third.tolist()) == (0.1, [1 / 3, 2 / 3])
            mt.set_default_dtype(mt.float64)
            assert narrow.dtype is mt.float32 and narrow.item() != 0.1 and abs(narrow.item() - 0.1) < 1e-8
    finally:
        mt.set_default_dtype(before)

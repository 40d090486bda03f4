"""Memory trackers: which storages count, from when, and until when."""

import gc
import subprocess
import sys
import threading

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker


def meta(*sizes, **kwargs):
    return mt.empty(*sizes, device="meta", **kwargs)


def test_a_storage_counts_from_birth_to_death():
    with MemoryTracker() as m:
        a = meta(10)
        assert m.current == 40
        b = a + a
        view = b.view(2, 5)
        assert m.current == 80
        del b
        assert m.current == 80
        del view
        assert m.current == 40 and m.peak == 80 and m.count == 2
    del a
    assert m.current == 0
    c = meta(1000)
    assert m.peak == 80 and c.numel() == 1000


def test_the_peak_can_be_reset():
    with MemoryTracker() as m:
        a = meta(10)
        meta(5)
        assert m.peak == 60
        m.reset_peak()
        assert m.peak == 40 == m.current
        meta(1)
        assert m.peak == 44
        del a
        m.reset_peak()
        assert m.peak == 0


def test_resized_storages():
    with MemoryTracker() as m:
        a = meta(10)
        a.untyped_storage().resize_(100)
        assert m.current == m.peak == 100 and m.count == 1
        a.untyped_storage().resize_(0)
        assert m.current == 0 and m.peak == 100
        a.resize_(50)
        assert m.current == m.peak == 200
        b = meta(0)
        mt.add(a, a, out=b)
        assert m.current == 400 and m.count == 2
    del a, b
    assert m.current == 0


def test_what_was_there_before_does_not_count():
    a = meta(10)
    with MemoryTracker() as m:
        a.untyped_storage().resize_(1000)
        b = a.view(2, 5)
        c = a.detach()
        del a, b, c
    assert m.current == m.peak == m.count == 0


@pytest.mark.parametrize("call", [
    lambda a, b: a.add_(b),
    lambda a, b: a.relu_(),
    lambda a, b: mt.add(a, b, out=b),
    lambda a, b: mt.nn.functional.relu(a, inplace=True),
    lambda a, b: a.clamp_(min=0),
    lambda a, b: a.copy_(b),
    lambda a, b: a.zero_(),
    lambda a, b: mt.mm(a, a, out=b),
    lambda a, b: a.__setitem__(0, 1.0),
    lambda a, b: a.addcdiv_(a, b),
    lambda a, b: a.uniform_(),
])  # fmt: skip
def test_writing_makes_nothing(call):
    a, b = meta(8, 8), meta(8, 8)
    with MemoryTracker() as m:
        call(a, b)
    assert m.peak == m.count == 0


def test_trackers_may_be_nested():
    with MemoryTracker() as outer:
        a = meta(10)
        with MemoryTracker() as inner:
            b = meta(5)
            assert (outer.current, inner.current) == (60, 20)
        b.untyped_storage().resize_(24)
        assert (outer.current, inner.current) == (64, 24)
        c = meta(1)
        del b
        assert (outer.current, outer.peak, inner.current, inner.peak) == (44, 68, 0, 24)
    del a, c
    assert outer.current == 0 and outer.count == 3


def test_a_tracker_may_be_entered_again():
    m = MemoryTracker()
    with m:
        a = meta(10)
    b = meta(10)
    with m:
        c = meta(5)
    assert m.current == 60 and m.count == 2 and b is not None
    del a, c
    assert m.current == 0


def test_misuse():
    m, other = MemoryTracker(), MemoryTracker()
    with pytest.raises(RuntimeError, match="left in the order"):
        m.__exit__(None, None, None)
    with m:
        with pytest.raises(RuntimeError, match="active already"):
            m.__enter__()
        with other, pytest.raises(RuntimeError, match="left in the order"):
            m.__exit__(None, None, None)
    assert meta(3).shape == (3,)
    assert m.count == 0


def test_only_storages_of_the_same_thread_count():
    with MemoryTracker() as m:
        made = []
        thread = threading.Thread(target=lambda: made.append(meta(10)))
        thread.start()
        thread.join()
        assert m.current == 0
        made.append(meta(5))
        thread = threading.Thread(target=made.clear)
        thread.start()
        thread.join()
        assert m.current == 0 and m.peak == 20


def test_values_count_as_well(device):
    with MemoryTracker() as m:
        a = mt.zeros(10, device=device)
        b = mt.tensor([1, 2, 3], device=device)
        assert m.current == 64
        del a, b
    assert m.current == 0


def test_an_operator_that_raises_leaves_the_tracker_in_effect():
    with MemoryTracker() as m:
        a = meta(10)
        with pytest.raises(RuntimeError):
            a.add_(meta(3))
        b = meta(10)
        assert m.current == 80
        del a, b


def test_what_backward_needs_and_what_it_leaves():
    x, w = meta(16, 32), meta(64, 32, requires_grad=True)
    with MemoryTracker() as m:
        hidden = mt.nn.functional.linear(x, w)  # 4096 bytes, not saved
        loss = hidden.tanh().sum()  # the result of tanh is saved
        del hidden
        assert m.current == 4096 + 4
        loss.backward()
        del loss
        assert m.current == w.grad.untyped_storage().nbytes() == 8192
        assert m.peak >= 4096 + 8192
        w.grad = None
        assert m.current == 0


def test_nothing_grows():
    gc.collect()
    x = meta(4, requires_grad=True)
    with MemoryTracker() as m:
        for _ in range(1000):
            (x * x).sum().backward()
            x.grad = None
    assert m.current == 0 and m.peak < 200


@pytest.mark.slow
def test_a_storage_may_outlive_its_tracker_and_its_interpreter():
    code = "import metatensor as mt\nwith mt.analysis.MemoryTracker():\n    kept = mt.empty(3, device='meta')\nprint('done')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "done" and done.returncode == 0, done.stderr

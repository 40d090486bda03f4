"""Modes, subclasses with overrides, memory tracking and threads."""

import signal
import threading

import pytest

import metatensor as mt
from metatensor._core import modes


class Record(mt.DispatchMode):
    def __init__(self):
        self.calls = []

    def dispatch(self, op, args, kwargs):
        self.calls.append((op.name, len(args), kwargs))
        return op(*args, **kwargs)


def meta(*shape, **kw):
    return mt.empty(shape, device="meta", **kw)


def test_a_mode_sees_functions_methods_and_operators():
    a = meta(2)
    with Record() as r:
        mt.add(a, a, alpha=2)
        a.add(a)
        a + a
        a += 1
    assert [c[0] for c in r.calls] == ["add", "add", "add", "add_"]
    assert r.calls[0][2] == {"alpha": 2} and r.calls[1][2] == {}
    a + a
    assert len(r.calls) == 4


def test_modes_nest_and_see_each_others_results():
    a = meta(2)
    with Record() as outer, Record() as inner:
        a + a
    assert len(outer.calls) == len(inner.calls) == 1


def test_a_mode_may_answer_itself():
    class Zero(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            return 0

    with Zero():
        assert meta(2) == 0


def test_a_mode_entered_inside_dispatch_goes_below():
    class Outer(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            with inner:
                return op(*args, **kwargs)

    inner = Record()
    with Outer():
        meta(2)
    assert [c[0] for c in inner.calls] == ["empty"]


def test_errors_leave_the_stack_as_it_was():
    class Bad(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            raise KeyError(op.name)

    with Record() as r, pytest.raises(KeyError), Bad():
        meta(1)
    assert r.calls == [] and modes.current_modes() == []


def test_modes_are_left_in_order():
    first, second = Record(), Record()
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="order"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    with pytest.raises(RuntimeError):
        first.__exit__(None, None, None)


def test_modes_belong_to_their_thread():
    results = []

    def other():
        with Record() as r:
            meta(1) + 1
            results.append(len(r.calls))

    with Record() as mine:
        t = threading.Thread(target=other)
        t.start()
        t.join()
        meta(1)
    assert results == [2] and [c[0] for c in mine.calls] == ["empty"]


def test_many_threads_at_once():
    failures = []

    def work(n):
        try:
            for _ in range(200):
                with mt.device("meta"), mt.no_grad(), Record() as r:
                    x = mt.empty(n, 2, requires_grad=False)
                    y = (x + 1).view(2, n)
                    assert y.shape == (2, n) and len(r.calls) == 3
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and modes.current_modes() == []


def test_subclasses_wrap_results_unless_they_say_otherwise():
    class Named(mt.Tensor):
        pass

    class Plain(mt.Tensor):
        __torch_function__ = mt._core.tensor._disabled_torch_function_impl

    named, plain = meta(2).as_subclass(Named), meta(2).as_subclass(Plain)
    assert type(named + 1) is Named and type(named.sum()) is Named
    assert [type(t) for t in named.split(1)] == [Named, Named]
    assert type(plain + 1) is mt.Tensor


def test_a_subclass_may_take_over():
    seen = []

    class Loud(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.name, types))
            return super().__torch_function__(func, types, args, kwargs)

    x = meta(2).as_subclass(Loud)
    assert type(mt.add(meta(2), x)) is Loud
    assert seen == [("add", (Loud,))]


@pytest.mark.parametrize("given", [None, 3, [], (1, 2), "x"], ids=repr)
def test_a_mode_that_gives_no_tensor_to_compiled_code(given):
    class Odd(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            return given

    t, n, signal = meta(4, 4), meta(4, 4), meta(64)
    with Odd():
        assert (t + n) is given
        for call in (lambda: t[[0, 1]], lambda: mt.stft(signal, 8), lambda: t.fill_diagonal_(1), lambda: mt.fft.fft(t)):
            try:
                assert call() is given
            except TypeError as error:
                assert "unlike the schema" in str(error)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarms here")
def test_long_loops_of_calls_can_be_interrupted():
    def stop(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            mt.svd_lowrank(meta(4, 4), 2, 100_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Memory logs: the events of storages, and the operators and backward passes in which they happen."""

import threading

import pytest

import metatensor as mt
from metatensor.analysis import MemoryLog, MemoryTracker


def meta(*sizes, **kwargs):
    return mt.empty(*sizes, device="meta", **kwargs)


def told(log):
    return [(event.kind, event.change) for event in log.events()]


def test_births_resizes_and_deaths_are_written_in_order():
    with MemoryLog() as log:
        a = meta(10)
        b = a + a
        a.untyped_storage().resize_(100)
        del b
    assert told(log) == [("birth", 40), ("birth", 40), ("resize", 60), ("death", -40)]
    assert len(log) == 4 and log.current == 100 and log.peak == 140
    assert log.highest() == (2, 140)
    first, second, third, fourth = log.events()
    assert first.storage == third.storage != second.storage == fourth.storage


def test_nothing_is_written_after_the_block():
    with MemoryLog() as log:
        a = meta(10)
    del a
    assert told(log) == [("birth", 40)] and log.current == 0


def test_operators_have_ascending_numbers():
    with MemoryLog() as log:
        a = meta(10)
        b = a * a
        b.view(2, 5)
        c = a + a
    numbers = [event.operator for event in log.events()]
    assert numbers == sorted(set(numbers)) and numbers[2] - numbers[1] == 2
    assert c.numel() == 10


@pytest.mark.parametrize("write", [lambda a, b: a.add_(b), lambda a, b: mt.add(a, b, out=a), lambda a, b: mt.relu_(a)])
def test_in_place_and_out_calls_make_no_storage(write):
    a, b = meta(10), meta(10)
    with MemoryLog() as log:
        write(a, b)
    assert told(log) == []


def test_backward_passes_are_numbered():
    w = meta(10).requires_grad_()
    with MemoryLog() as log:
        for _ in range(2):
            (w * w).sum().backward()
            w.grad = None
    assert sorted({event.walk for event in log.events()}) == [0, 1, 2]
    assert {event.walk for event in log.events() if event.kind == "birth" and event.change == 4 and event.walk == 0} == {0}


def test_logs_and_trackers_nest():
    with MemoryTracker() as outer:
        a = meta(1)
        with MemoryLog() as log:
            b = meta(10)
        c = meta(100)
    assert told(log) == [("birth", 40)] and outer.current == 444
    del a, b, c
    assert outer.current == log.current == 0


def test_other_threads_do_not_count_but_may_free():
    held = []
    with MemoryLog() as log:
        thread = threading.Thread(target=lambda: held.append(meta(10)))
        thread.start()
        thread.join()
        held[:] = [meta(5)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
    assert told(log) == [("birth", 20), ("death", -20)]


def test_real_storages_count_too():
    with MemoryLog() as log:
        a = mt.zeros(10, device="cpu")
        del a
    assert told(log) == [("birth", 40), ("death", -40)]


def test_long_logs():
    with MemoryLog() as log:
        for _ in range(20000):
            meta(1)
    assert len(log) == 40000 and log.peak == 4 and log.current == 0
    assert log.events()[-1].storage - log.events()[0].storage == 19999


def test_the_operator_of_an_event():
    with MemoryLog() as log:
        a = mt.empty(10, device="meta")
        b = a + a
        del b
    events = log.events()
    assert [log.operator_at(i) for i in range(3)] == [event.operator for event in events]
    with pytest.raises(IndexError, match="no event 3; there are 3"):
        log.operator_at(3)
    with pytest.raises(IndexError, match="no event -1"):
        log.operator_at(-1)

"""Recorders are entered and left by several threads, in any order."""

import contextlib
import threading

import pytest

import metatensor as mt
from metatensor._core.recorder import Recorder, current_recorder, suspended


def in_steps(*threads):
    """Run generators in separate threads, one step at a time in turns. Errors are raised."""
    iterators, errors = [function() for function in threads], []
    gates = [threading.Semaphore(0) for _ in threads]
    back = threading.Semaphore(0)

    def run(i):
        try:
            gates[i].acquire()
            for _ in iterators[i]:
                back.release()
                gates[i].acquire()
        except BaseException as error:
            errors.append(error)
        iterators[i] = None
        back.release()

    workers = [threading.Thread(target=run, args=(i,)) for i in range(len(threads))]
    for worker in workers:
        worker.start()
    while any(iterators):
        for i, gate in enumerate(gates):
            if iterators[i] is not None:
                gate.release()
                back.acquire()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def test_one_recorder_in_several_threads():
    recorder = Recorder(False)

    def outer():
        with mt.deferred_init():
            around = current_recorder()
            yield
            with recorder:
                yield
                assert current_recorder() is recorder
                yield
            yield
            assert current_recorder() is around

    def plain():
        yield
        with recorder:
            yield
            assert current_recorder() is recorder
            yield
        assert current_recorder() is None
        yield

    in_steps(outer, plain, plain)
    in_steps(plain, outer)


def test_one_mode_several_times():
    recorder = Recorder(True)
    with recorder, recorder, suspended():
        assert current_recorder() is None
        with recorder:
            assert current_recorder() is recorder
        assert current_recorder() is None
    assert current_recorder() is None


def test_left_in_another_order():
    one, two = Recorder(True), Recorder(False)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert current_recorder() is two
    two.__exit__(None, None, None)
    assert current_recorder() is None


@pytest.mark.parametrize("make", [mt.deferred_init, mt.FakeTensorMode, Recorder])
def test_left_without_having_been_entered(make):
    mode = make()
    with pytest.raises(RuntimeError, match="has not entered it"):
        mode.__exit__(None, None, None)
    with mode:
        thread = []
        worker = threading.Thread(target=lambda: thread.append(pytest.raises(RuntimeError, mode.__exit__, None, None, None)))
        worker.start()
        worker.join()
        assert thread and current_recorder() is not None
    assert current_recorder() is None


def test_a_subclass_without_the_base():
    class Mode(mt.FakeTensorMode):
        def __init__(self):
            pass

    with Mode():
        assert mt.rand(3).untyped_storage().data is None


def test_a_generator_that_is_never_finished():
    @contextlib.contextmanager
    def context():
        with mt.deferred_init():
            yield

    held = context()
    held.__enter__()
    assert current_recorder() is not None
    del held
    assert current_recorder() is None

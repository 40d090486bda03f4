"""The mode that calls a function in place of an operator."""

import threading

import pytest

import metatensor as mt
from metatensor._core.replacement import Replacement
from metatensor.nn import functional as F


def test_the_function_is_called_with_the_arguments():
    calls = []

    def other(*args, **kwargs):
        calls.append((args, kwargs))
        return mt.add(*args, **kwargs) * 2  # calls the operator, not itself

    x = mt.ones(2, device="meta")
    with Replacement(mt.add, other) as mode:
        assert (mode.op, mode.function) == (mt.add, other)
        for call in (lambda: mt.add(x, 3, alpha=2), lambda: x.add(3, alpha=2), lambda: mt.add(x, alpha=2, other=3)):
            assert call().shape == (2,)
        x + x
        x - x
        thread = threading.Thread(target=lambda: x + x)
        thread.start()
        thread.join()
    x + x
    assert len(calls) == 4 and all(args[0] is x for args, _ in calls)
    assert [list(args[1:]) + list(kwargs.values()) for args, kwargs in calls[:3]] == [[3, 2]] * 3


def test_composite_operators_can_be_replaced():
    q = mt.ones(4, 3, device="meta")
    assert F.linear(q, q).shape == (4, 4)
    with Replacement(mt.einsum, lambda equation, *operands: equation):
        assert mt.einsum("ij,ij->i", q, q) == "ij,ij->i"


def test_its_place_among_other_modes():
    """Autocast comes first, and operator modes see what the function calls, in whichever order they are entered."""
    seen = []

    class Log(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append(op.name)
            return op(*args, **kwargs)

    def other(a, b):
        seen.append(str(a.dtype))
        return mt.mm(a, b)

    x = mt.ones(2, 2, device="meta")
    for modes in ([Replacement(mt.matmul, other), Log(), mt.autocast("meta", dtype=mt.bfloat16)],
                  [mt.autocast("meta", dtype=mt.bfloat16), Log(), Replacement(mt.matmul, other)]):  # fmt: skip
        seen.clear()
        with modes[0], modes[1], modes[2]:
            assert mt.matmul(x, x).dtype is mt.bfloat16
        assert [name for name in seen if name != "to"][-2:] == ["metatensor.bfloat16", "mm"]


def test_errors_leave_the_mode():
    x = mt.ones(2, device="meta")

    def fail(*args):
        raise KeyError("fail")

    with pytest.raises(KeyError), Replacement(mt.add, fail):
        x + x
    assert (x + x).shape == (2,)
    for wrong in ((None, fail), (fail, fail), (mt.add, None)):
        with pytest.raises(TypeError):
            Replacement(*wrong)

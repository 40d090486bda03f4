"""A million calls leak nothing."""

import gc
import sys

import pytest

import metatensor as mt
from metatensor._core import op as _op


def _blocks():
    gc.collect()
    return sys.getallocatedblocks()


def _grows(step, times):
    for _ in range(1000):
        step()
    before = _blocks()
    for _ in range(times):
        step()
    return _blocks() - before


@pytest.mark.slow
def test_a_million_ops_do_not_grow():
    a = mt.empty(2, 3, device="meta")
    b = mt.empty(3, device="meta")
    six = mt.empty(1, 1, 1, 1, 2, 3, device="meta")
    gc.collect()  # garbage of other tests
    dtype, device = sys.getrefcount(mt.float32), sys.getrefcount(a.device)

    def step():
        c = a + b
        c.mul_(2)
        mt.add(c, 1, alpha=2, out=c)
        d = c.view(3, 2)[0]
        six + d.sum()
        mt.max(c, dim=1).values
        c.relu().foo = c

    assert _grows(step, 100_000) < 50  # ten calls a step
    assert abs(sys.getrefcount(mt.float32) - dtype) < 20
    assert abs(sys.getrefcount(a.device) - device) < 20


def test_errors_do_not_grow():
    a = mt.empty(2, 3, device="meta")
    b = mt.empty(4, device="meta")

    def step():
        for wrong in (lambda: a + b, lambda: a.view(7), lambda: mt.add(a, "x"), lambda: a[5],
                      lambda: mt.zeros(2, device="meta", dtype="x"), lambda: a.add_(b)):
            try:
                wrong()
            except (RuntimeError, TypeError, IndexError):
                pass

    assert _grows(step, 3000) < 50


def test_modes_and_cycles_do_not_grow():
    class Through(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            return op(*args, **kwargs)

    def step():
        with Through(), mt.device("meta"):
            t = mt.empty(2)
            t.me = t
            t + t

    assert _grows(step, 2000) < 50
    assert _op.registry


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
def test_memory_with_data_keeps_no_reference_to_none(device):
    if device == "cuda":
        pytest.skip("memory of the library's own")
    a = mt.ones(3, device=device)
    before = sys.getrefcount(None)
    for _ in range(500):
        a + a
    assert sys.getrefcount(None) - before < 100

"""Values of small constants where no device can compute them, and long chains of such constants."""

import os
import random
import subprocess
import sys

import pytest

import metatensor as mt
from metatensor._core.storage import recipe_of, storage_bytes
from metatensor.deferred import steps_for
from metatensor.deferred.constants import bytes_on_host
from metatensor.plugins import device_types

needs_cpu = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")

WITHOUT_PLUGINS = """
import metatensor as mt
def rates():
    return [x.item() for x in mt.linspace(0, 0.1, 4)]
for mode in (mt.FakeTensorMode(), mt.deferred_init()):
    with mode:
        print(rates(), mt.arange(2, 8, 3).tolist(), (mt.tensor([[1, 2], [3, 4]]).t() * 2 + 1).tolist(), int(mt.tensor(3)),
              (1 / mt.full((2,), 4.0)).tolist(), mt.tensor(2.5).bfloat16().item(), [4, 5, 6][mt.arange(3)[1]])
        for call in (lambda: mt.arange(3).exp().tolist(), lambda: mt.rand(2).tolist(), lambda: mt.arange(3).sum().item()):
            try:
                print(call())
            except RuntimeError as error:
                print(type(error).__name__, "metatensor-cpu" in str(error))
with mt.FakeTensorMode():
    count = mt.zeros(2)
    for _ in range(1000):
        count += 1
    print(count.tolist())
"""


@pytest.mark.slow
def test_no_plugin_is_needed():
    env = {**os.environ, "METATENSOR_BLOCK_PLUGINS": "cpu,cuda,disk", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", WITHOUT_PLUGINS], capture_output=True, text=True, check=True, env=env)
    lines = done.stdout.splitlines()
    values = "[0.0, 0.03333333507180214, 0.06666666269302368, 0.10000000149011612] [2, 5] [[3, 7], [5, 9]] 3 [0.25, 0.25] 2.5 5"
    assert lines[0] == lines[4] == values
    assert lines[1:4] == ["RuntimeError True", "DataDependentError False", "RuntimeError True"]
    assert lines[5:8] == ["RuntimeError True"] * 3
    assert lines[8] == "[1000.0, 1000.0]"


DTYPES = [mt.float32, mt.float64, mt.float16, mt.bfloat16, mt.int64, mt.int32, mt.int8, mt.uint8, mt.bool]


def _leaf(choice):
    return choice.choice([
        lambda: mt.arange(4), lambda: mt.arange(0.3, 3.0, 0.7), lambda: mt.zeros(4), lambda: mt.tensor([1e30, -2.5, 0.1, 7.0]),
        lambda: mt.linspace(choice.uniform(-3, 3), choice.uniform(-9, 9), 4, dtype=choice.choice(DTYPES[:4])),
        lambda: mt.full((4,), choice.randrange(100), dtype=choice.choice(DTYPES[:8])), lambda: mt.ones(4, dtype=choice.choice(DTYPES)),
        lambda: mt.tensor([choice.randrange(-100, 100) for _ in range(8)])[::2], lambda: mt.scalar_tensor(3).expand(4),
    ])()  # fmt: skip


def _changed(x, choice):
    y = _leaf(choice) if choice.random() < 0.5 else choice.choice([2, 3, -1.5, 0.1, 1e10, 1e-3])
    kind = choice.randrange(8)
    if kind == 7:
        x = x.clone()
        x[1:3] = 7
        return x.add_(1)
    return [lambda: x + y, lambda: x - y, lambda: x * y, lambda: x / y, lambda: y - x, lambda: -x,
            lambda: x.to(choice.choice(DTYPES))][kind]()  # fmt: skip


@pytest.mark.slow
@needs_cpu
def test_numbers_are_those_of_the_cpu():
    pytest.importorskip("numpy")
    choice, compared = random.Random(0), 0
    with mt.FakeTensorMode():
        for _ in range(1500):
            try:
                x = _leaf(choice)
                for _ in range(choice.randrange(4)):
                    x = _changed(x, choice)
            except (RuntimeError, TypeError):
                continue  # no such dtype
            recipe = recipe_of(x.untyped_storage())
            got = bytes_on_host(recipe, steps_for([recipe]))
            if got is not None:
                compared += 1
                assert bytes(got) == storage_bytes(x.untyped_storage()), [step.name for step in steps_for([recipe])]
    assert compared > 1000


@pytest.mark.slow
@needs_cpu
def test_long_chains_do_not_grow():
    with mt.FakeTensorMode():
        count, scaled = mt.zeros(2), mt.ones(2)
        for _ in range(5000):
            count += 1
            scaled = scaled * 1.0 + 1
        for tensor in (count, scaled):
            assert len(steps_for([recipe_of(tensor.untyped_storage())])) <= 400
        assert count.tolist() == [5000, 5000] and scaled.tolist() == [5001, 5001]
        other = count + scaled
        count.zero_()
        assert other.tolist() == [10001, 10001] and count.tolist() == [0, 0]

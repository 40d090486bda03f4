"""The temporary tensors of parts: each function that makes them runs, counts, and changes nothing that a program can see."""

import contextlib

import pytest

import metatensor as mt
from metatensor._core import accounting
from metatensor._core.op import registry
from metatensor.analysis import MemoryTracker
from metatensor.rules import parts

F = mt.nn.functional


@pytest.fixture(autouse=True)
def strictly():
    """Let the exceptions of functions that make parts be raised."""
    was = accounting.set_strict(True)
    yield
    accounting.set_strict(was)


def meta(*sizes, **kwargs):
    return mt.empty(*sizes, device="meta", **kwargs)


def peak(call):
    with mt.no_grad(), MemoryTracker() as memory:
        result = call()
    assert result is not None
    return memory.peak


def bn(training):
    return lambda: F.batch_norm(meta(4, 8, 6, 6), meta(8), meta(8), meta(8), meta(8), training)


x, square, image = meta(6, 10), meta(6, 6), meta(2, 8, 6, 6)
large, half = 4 * 60, meta(6, 10, dtype=mt.float16)
# what PyTorch makes, result included, in bytes, without the arguments
CASES = {
    "nn.functional.softmin": (lambda: F.softmin(x, 1), 2 * large),
    "softmax": (lambda: mt.softmax(half, 1, dtype=mt.float32), 2 * large),
    "nn.functional.layer_norm": (lambda: F.layer_norm(x, (10,)), large + 2 * 4 * 6),
    "nn.functional.max_pool2d": (lambda: F.max_pool2d(image, 2), 2 * 8 * 9 * (4 + 8)),
    "nn.functional.dropout": (lambda: F.dropout(x, 0.5, True), 2 * large),
    "nn.functional.dropout2d": (lambda: F.dropout2d(image, 0.5, True), 4 * (2 * 8 * 36 + 16)),
    "nn.functional.alpha_dropout": (lambda: F.alpha_dropout(x, 0.5, True), 3 * large),
    "nn.functional.l1_loss": (lambda: F.l1_loss(x, x), 2 * large + 4),
    "nn.functional.linear": (lambda: F.linear(image[:, :, 0].transpose(1, 2), mt.empty(8, 8, device="meta"), meta(8)),
                             4 * (64 + 8) + 4 * 2 * 6 * 8 * 3 - 4 * 2 * 6 * 8),
    "special.ndtr": (lambda: mt.special.ndtr(x), 4 * large),
    "float_power": (lambda: mt.float_power(x, 2), 2 * 2 * large),
    "nn.functional.normalize": (lambda: F.normalize(x, dim=1), 4 * 6 + large),
    "nanmean": (lambda: mt.nanmean(x, 1), 60 + 8 * 6),
    "pairwise_distance": (lambda: mt.pairwise_distance(x, x), 2 * large + 4 * 6),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_temporaries_count(name):
    call, expected = CASES[name]
    assert peak(call) == expected


def test_attention_counts_its_weights():
    q = meta(2, 4, 16, 8)
    rows = 4 * 2 * 4 * 16
    # the scaled query lives until the end, the scaled key until there are scores
    assert peak(lambda: F.scaled_dot_product_attention(q, q, q)) == rows * 8 + rows * 16 * 2


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_counts_its_statistics(training):
    own = 4 * (4 * 8 * 36 + 4 * 8)  # the arguments
    assert peak(bn(training)) - own == 4 * (4 * 8 * 36 + 2 * 8)


def test_every_entry_is_an_operator():
    for name in parts.TABLE:
        parts.parts_of(name)
        assert name in registry or name.rpartition(".")[0] in registry, name


def test_counting_changes_nothing():
    """Results, random numbers, versions, modes and classes are as without a tracker."""
    found = []
    for counting in (False, True):
        mt.manual_seed(0)
        with MemoryTracker() if counting else contextlib.nullcontext():
            results = [call() for call, _ in CASES.values()] + [mt.rand(3, device="cpu").tolist()]
        found.append([r if isinstance(r, list) else (r.shape, r.dtype, r.stride(), r.requires_grad) for r in results])
    assert found[0] == found[1]
    mean = meta(8)
    version = mean._version
    with MemoryTracker(), mt.no_grad():
        F.batch_norm(meta(4, 8, 6, 6), mean, meta(8), None, None, False)
    assert mean._version == version


def test_modes_and_subclasses_see_no_parts():
    seen = []

    class Log(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append(op.name)
            return op(*args, **kwargs)

    class Own(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append("function")
            return super().__torch_function__(func, types, args, kwargs or {})

    with MemoryTracker(), Log():
        F.softmin(x, 1)
    assert seen == ["nn.functional.softmin"]
    seen.clear()
    own = x.as_subclass(Own)
    with MemoryTracker():
        F.softmin(own, 1)
    assert seen == ["function"]


def test_an_error_in_a_part_is_not_the_programs_error(monkeypatch):
    accounting.set_strict(False)
    calls = []

    def broken(*args):
        calls.append(args)
        raise RuntimeError("a part")

    monkeypatch.setitem(parts.TABLE, "hypot", broken)
    with MemoryTracker() as memory:
        kept = mt.hypot(x, x)
    assert memory.current == large and kept.shape == x.shape
    assert len(calls) <= 1  # none if the operator was looked up before


def test_the_formula_of_a_gradient_keeps_its_temporaries():
    w = meta(10).requires_grad_()
    loss = (w**3).sum()
    with MemoryTracker() as memory:
        loss.backward()
    # the gradient of the sum is expanded; the power, its multiple and the product
    assert memory.peak == 4 + 3 * 40 and memory.current == 40


def test_the_gradient_of_an_index_makes_zeros_and_a_sum():
    w = meta(8, 10).requires_grad_()
    loss = w[mt.zeros(3, dtype=mt.int64, device="meta")].sum()
    with MemoryTracker() as memory:
        loss.backward()
    assert memory.peak == 4 + 2 * 4 * 80

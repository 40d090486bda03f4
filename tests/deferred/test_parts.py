"""Parts of deferred tensors, computed without the whole tensor if possible."""

import copy

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.plugins import device_types

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")

ALONE = {
    "rand": lambda dtype: mt.rand(7, 9, dtype=dtype),
    "randn": lambda dtype: mt.randn(7, 9, dtype=dtype),
    "uniform_": lambda dtype: mt.empty(7, 9, dtype=dtype).uniform_(-2, 0.3),
    "normal_": lambda dtype: mt.empty(7, 9, dtype=dtype).normal_(1, 2),
    "full": lambda dtype: mt.full((7, 9), 2.5, dtype=dtype),
    "in place": lambda dtype: mt.ones(7, 9, dtype=dtype).mul_(3).add_(0.1),
    "functional": lambda dtype: -(mt.rand(7, 9, dtype=dtype) * 2 - 1),
    "copies": lambda dtype: copy.deepcopy(mt.randn(7, 9, dtype=dtype)),
    "a transposed one": lambda dtype: mt.rand(9, 7, dtype=dtype).t(),
    "a view inside": lambda dtype: mt.rand(70, 9, dtype=dtype)[3:10],
    "another dtype": lambda dtype: mt.rand(7, 9, dtype=dtype).to(mt.float64),
    "a narrower dtype": lambda dtype: mt.randn(7, 9, dtype=dtype).to(mt.complex32 if dtype.is_complex else mt.float16),
    "several casts": lambda dtype: (mt.rand(7, 9, dtype=dtype).to(mt.complex128) * 3).to(mt.complex64).add_(1),
    "a cast and a copy": lambda dtype: copy.deepcopy(mt.rand(7, 9, dtype=dtype).to(mt.complex64)),
    "overwritten": lambda dtype: mt.randn(7, 9, dtype=dtype).zero_().uniform_(),
}
WHOLE = {
    "a draw in another order than memory": lambda dtype: mt.empty(9, 7, dtype=dtype).t().normal_(),
    "a row written to": lambda dtype: nn.Embedding(7, 9, padding_idx=2, dtype=dtype).weight.detach(),
    "two tensors": lambda dtype: mt.rand(7, 9, dtype=dtype) + mt.rand(7, 9, dtype=dtype),
    "itself transposed": lambda dtype: (lambda t: t + t.t())(mt.rand(9, 9, dtype=dtype)),
    "a table": lambda dtype: mt.rand(7, 9, dtype=dtype) * mt.tensor([3.0] * 9).to(dtype),
    "a sum": lambda dtype: mt.rand(7, 9, 5, dtype=dtype).sum(2),
}
DTYPES = [mt.float32, mt.float64, mt.bfloat16, mt.complex64]
INDICES = [slice(2, 4), 3, (slice(None), 2), (slice(1, None, 2), slice(3, 7)), (2, 3), slice(4, 4), slice(-3, None), ..., (None, 5),
           [1, -2], True]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*ALONE, *WHOLE])
def test_values_are_those_of_the_whole(name, dtype):
    build = (ALONE | WHOLE)[name]
    mt.manual_seed(0)
    expected = build(dtype)
    mt.manual_seed(0)
    with mt.deferred_init():
        tensor = build(dtype)
    for index in INDICES:
        part, wanted = mt.materialize_slice(tensor, index), expected[index]
        assert part.shape == wanted.shape and part.dtype is wanted.dtype and mt.equal(part, wanted)
        assert part.untyped_storage().nbytes() == part.nbytes
    assert mt.is_deferred(tensor)


def computed(monkeypatch, call):
    """Return the sizes of the tensors that steps fill during a call."""
    from metatensor.deferred import materializing, parts

    found = []
    for module in (materializing, parts):
        real = module.replay
        monkeypatch.setattr(module, "replay", lambda step, *rest, real=real: (found.append(step.result.size), real(step, *rest)))
    call()
    return found


@pytest.mark.parametrize("name", list(ALONE))
def test_no_more_is_computed_than_the_part(monkeypatch, name):
    with mt.deferred_init():
        tensor = ALONE[name](mt.float32)
    if name == "a transposed one":
        tensor = tensor.t()
    sizes = computed(monkeypatch, lambda: mt.materialize_slice(tensor, slice(2, 4)))
    assert sizes and set(sizes) == {(2 * tensor.shape[1],)}


@pytest.mark.parametrize("name", list(WHOLE))
def test_else_the_whole_is(monkeypatch, name):
    with mt.deferred_init():
        tensor = WHOLE[name](mt.float32)
    assert max(map(len, computed(monkeypatch, lambda: mt.materialize_slice(tensor, slice(2, 4))))) > 1


def test_eighths_of_long_draws():
    for fill in (lambda t: t.normal_(0, 0.02), lambda t: t.uniform_(-0.1, 0.1), nn.init.trunc_normal_):
        with mt.deferred_init():
            tensor = fill(mt.empty(1000, 777))
        parts = [mt.materialize_slice(tensor, slice(i * 125, (i + 1) * 125)) for i in range(8)]
        assert mt.equal(mt.cat(parts), mt.materialize(tensor))


def test_dtype_and_device():
    with mt.deferred_init():
        tensor = mt.rand(4, 3)
    part = mt.materialize_slice(tensor, slice(1, 3), dtype=mt.float64, device="cpu")
    assert part.dtype is mt.float64 and mt.equal(part, mt.materialize(tensor)[1:3].double())


@pytest.mark.parametrize(("args", "error"), [
    ((3, 0), TypeError), ((None, 0), TypeError), (("t", 9), IndexError), (("t", slice(None, None, -1)), ValueError),
    (("t", (0, 0, 0)), IndexError),
])  # fmt: skip
def test_what_is_no_part(args, error):
    with mt.deferred_init():
        tensor = mt.rand(4, 3)
    with pytest.raises(error):
        mt.materialize_slice(tensor if args[0] == "t" else args[0], args[1])
    with pytest.raises(RuntimeError, match="meta device holds no data"):
        mt.materialize_slice(tensor, 0, device="meta")
    with pytest.raises(TypeError, match="expected a dtype"):
        mt.materialize_slice(tensor, 0, dtype="float32")


@pytest.mark.parametrize("name", [*ALONE, *WHOLE])
def test_a_copy_of_a_part_is_computed_like_a_slice(monkeypatch, name):
    """Later operations on the copy, such as a conversion, are applied to the part alone."""
    build = (ALONE | WHOLE)[name]
    mt.manual_seed(0)
    expected = build(mt.float32)[2:4].clone().to(mt.float64).mul_(2)
    mt.manual_seed(0)
    with mt.deferred_init():
        tensor = build(mt.float32)
        part = tensor[2:4].clone().to(mt.float64).mul_(2)
    again = mt.materialize_slice(part, slice(0, 1))
    sizes = computed(monkeypatch, lambda: mt.materialize(part))
    assert mt.equal(part, expected) and mt.equal(again, expected[:1]) and part.stride() == expected.stride()
    if name in ALONE and name != "a transposed one":
        assert max(mt.Size(size).numel() for size in sizes) == part.numel()
    monkeypatch.undo()
    assert mt.is_deferred(tensor) and mt.equal(tensor[2:4].clone().double().mul_(2), expected)


def test_a_part_of_what_is_wanted_too_is_copied_from_it():
    mt.manual_seed(0)
    with mt.deferred_init():
        tensor = mt.rand(7, 9)
        parts = [tensor, tensor[2:4].clone(), tensor[:, 3:5].clone()]
    mt.materialize(parts)
    assert mt.equal(parts[1], tensor[2:4]) and mt.equal(parts[2], tensor[:, 3:5])


def test_a_copy_of_a_part_in_another_order():
    mt.manual_seed(0)
    expected = mt.rand(4, 3, 2, 5)[1:3].clone(memory_format=mt.channels_last)
    mt.manual_seed(0)
    with mt.deferred_init():
        part = mt.rand(4, 3, 2, 5)[1:3].clone(memory_format=mt.channels_last)
    assert mt.equal(mt.materialize(part), expected) and part.stride() == expected.stride()

"""Copies and conversions: shared memory, devices, strides compared with PyTorch, transfers between devices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import conform, layouts

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def shares(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


@pytest.mark.torch
@settings(max_examples=300)
@given(layouts(max_dims=5, min_size=1, max_size=3), st.sampled_from([None, *FORMATS]))
def test_clone_and_empty_like(layout, name):
    def with_format(lib):
        return {} if name is None else {"memory_format": getattr(lib, name)}

    conform(lambda lib, t: lib.clone(t, **with_format(lib)), (layout, "float32"))
    conform(lambda lib, t: lib.empty_like(t, **with_format(lib)), (layout, "float32"))
    conform(lambda lib, t: t.to(lib.float64, **with_format(lib)), (layout, "float32"))
    conform(lambda lib, t: t.is_contiguous(**with_format(lib)), (layout, "float32"))
    conform(lambda lib, t: t.contiguous(**with_format(lib)), (layout, "float32"))


def test_what_changes_nothing_is_the_tensor_itself(device):
    t = mt.zeros(2, 3, device=device)
    for same in (t.to(mt.float32), t.to(device), t.to(t), t.float(), t.contiguous(), t.type_as(t), t.to(dtype=mt.float32, device=device)):
        assert same is t
    for other in (t.to(mt.float32, copy=True), t.clone(), t.double(), t.t().contiguous()):
        assert other is not t and not shares(other, t)


def test_conversions(device):
    t = mt.tensor([0.0, 1.9, -1.9, 3.0], device=device)
    assert t.long().tolist() == [0, 1, -1, 3] and t.long().dtype is mt.int64
    assert t.bool().tolist() == [False, True, True, True]
    assert t.half().dtype is mt.float16 and t.bfloat16().dtype is mt.bfloat16 and t.cdouble().dtype is mt.complex128
    assert mt.tensor([1 + 2j], device=device).real.int().tolist() == [1]
    assert t.type() == ("metatensor.FloatTensor" if device == "cpu" else f"metatensor.{device}.FloatTensor")
    assert t.type(mt.int8).dtype is mt.int8


def test_from_meta_to_a_device_there_is_nothing_to_copy(device):
    t = mt.ones(5, device="meta")
    for call in (lambda: t.to(device), lambda: mt.zeros(5, device=device).copy_(t), lambda: t.to(device, mt.int8)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            call()
    assert mt.empty_like(t, device=device).device.type == device
    assert mt.zeros_like(t, device=device).tolist() == [0] * 5
    assert t.new_ones(2, device=device).tolist() == [1, 1]


def test_from_a_device_to_meta(device):
    t = mt.zeros(2, 3, device=device).t()
    assert t.to("meta").is_meta and t.to("meta").stride() == (1, 3)
    meta = mt.empty(3, 2, device="meta")
    assert meta.copy_(t) is meta


def test_between_devices(device):
    t = mt.arange(6, dtype=mt.float32).reshape(2, 3)
    there = t.to(device)
    assert there.device.type == device and there.tolist() == t.tolist() and there.cpu().tolist() == t.tolist()
    assert t.t().to(device).stride() == (1, 3)
    assert t.to(device, mt.int16).tolist() == t.tolist()
    target = mt.zeros(2, 3, dtype=mt.float64, device=device)
    assert target.copy_(t).tolist() == t.tolist()
    assert target.t().copy_(t.t() + 1).t().tolist() == (t + 1).tolist()
    assert mt.zeros(2, 3, device=device).copy_(mt.tensor([1.0, 2.0, 3.0])).tolist() == [[1, 2, 3]] * 2
    half = mt.tensor([1.5, 2.5], dtype=mt.bfloat16)
    assert half.to(device).dtype is mt.bfloat16 and half.to(device).tolist() == [1.5, 2.5]


def test_copy_checks_shapes():
    with pytest.raises(RuntimeError, match=r"copy_\(\): shape \[3\] does not broadcast to \[2\]"):
        mt.empty(2, device="meta").copy_(mt.empty(3, device="meta"))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_what_is_copied_must_not_overlap_the_target_in_part(device):
    t = mt.zeros(4, device=device)
    with pytest.raises(RuntimeError, match=r"copy_\(\): cannot write to a tensor of shape \[3\]: it overlaps"):
        t[1:].copy_(t[:-1])
    with pytest.raises(RuntimeError, match="overlaps another argument in part"):
        t[1:] = t[:-1]
    assert t[:2].copy_(t[2:]).shape == (2,)  # they do not overlap
    assert t.copy_(t) is t


def test_fill_and_zero(device):
    t = mt.empty(2, 2, device=device)
    assert t.fill_(3) is t and t.tolist() == [[3, 3], [3, 3]]
    assert t[0].zero_().tolist() == [0, 0] and t.tolist() == [[0, 0], [3, 3]]
    assert t.fill_(mt.tensor(2, device=device)).tolist() == [[2, 2], [2, 2]]
    assert mt.fill(t, 5).tolist() == [[5, 5], [5, 5]] and t.tolist() == [[2, 2], [2, 2]]
    assert mt.zeros(2, dtype=mt.uint8, device=device).fill_(-1).tolist() == [255, 255]
    with pytest.raises(RuntimeError, match="a number or a 0-d tensor, got shape"):
        t.fill_(mt.zeros(2, device=device))
    with pytest.raises(RuntimeError, match="cannot be converted to float32"):
        t.fill_(1j)


def test_gradients():
    t = mt.empty(2, device="meta", requires_grad=True)
    assert t.clone().requires_grad and t.double().requires_grad and not t.long().requires_grad
    assert not t.detach().requires_grad and shares(t.detach(), t) and t.detach()._base is None
    with pytest.raises(RuntimeError, match="a leaf tensor that requires grad"):
        t.zero_()
    target = mt.empty(2, device="meta")
    target.copy_(t)
    assert target.requires_grad and not target.is_leaf
    assert not target.detach_().requires_grad and target.is_leaf


@pytest.mark.torch
@pytest.mark.parametrize("source", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("target", ["bool", "int8", "int32", "float16", "bfloat16", "float8_e4m3fn", "float64", "complex128"])
def test_converted_values(source, target, device):
    import torch

    numbers = [[0, 1, 2, 100], [3, 1, 0, 7]] if source in ("bool", "uint8") else [[0, 1, -1, 100], [-3, 2.5, 0.1, -7.75]]
    theirs = torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, source))
    ours = mt.tensor(numbers, dtype=mt.float64).to(getattr(mt, source))
    expected = theirs.to(getattr(torch, target)).tolist()
    there = ours.to(device)
    assert there.to(getattr(mt, target)).tolist() == expected
    assert ours.t().to(device, getattr(mt, target)).tolist() == theirs.t().to(getattr(torch, target)).tolist()
    assert mt.empty(2, 4, dtype=getattr(mt, target), device=device).copy_(there).tolist() == expected
    assert mt.empty(2, 4, dtype=getattr(mt, target)).copy_(there).tolist() == expected


def test_lazy_conjugates_and_negatives(device):
    z = mt.tensor([1 + 2j, 3 - 1j], device=device).conj()
    assert z.is_conj() and z.imag.is_neg()
    for here in (z, z.cpu(), z.clone()):
        assert here.tolist() == [1 - 2j, 3 + 1j]
    assert z.to(mt.complex128).tolist() == z.to("cpu", mt.complex128).tolist() == [1 - 2j, 3 + 1j]
    assert z.imag.to(mt.float64).tolist() == z.imag.to("cpu", mt.float64).tolist() == [-2, 1]
    target = mt.zeros(2, dtype=mt.complex64)
    target.conj().copy_(z)
    assert target.tolist() == [1 + 2j, 3 - 1j]


@pytest.mark.parametrize("dtype", ["quint8", "bits16", "uint4", "float4_e2m1fn_x2"])
def test_what_is_no_number_is_moved_but_not_converted(dtype, device):
    t = mt.zeros(2, dtype=getattr(mt, dtype), device=device)
    for moved in (t.clone(), t.cpu(), t.cpu().to(device), mt.empty_like(t).copy_(t), mt.cat([t, t])[:2], t.flip(0)):
        assert moved.dtype is t.dtype and moved.untyped_storage().nbytes() >= t.nbytes
    ones = mt.ones(2, device=device)
    for call in (lambda: t.float(), lambda: ones.to(t.dtype), lambda: t.to("cpu", mt.float32), lambda: t.copy_(ones)):
        with pytest.raises(RuntimeError, match="cannot convert"):
            call()


@pytest.mark.torch
@given(layouts(min_size=0), st.sampled_from(["copy_", "add_", "mul_"]))
def test_writing_over_itself(layout, name):
    """An expanded tensor cannot be written to unless it is empty."""
    import torch

    shape, strides = layout
    results = []
    for m in (mt, torch):
        room = m.zeros(1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides)))
        try:
            results.append(tuple(getattr(room.as_strided(shape, strides), name)(m.ones(shape)).stride()))
        except RuntimeError:
            results.append("refused")
    assert results[0] == results[1]


def test_types_by_name(device):
    t = mt.zeros(2, device="cpu")
    assert t.type() == "metatensor.FloatTensor" and t.type("metatensor.LongTensor").dtype is mt.int64
    assert t.double().type(mt.Tensor).dtype is mt.float32
    for wanted, error in (("LongTensor", ValueError), ("metatensor.NoTensor", ValueError), (float, ValueError), (2, TypeError)):
        with pytest.raises(error):
            t.type(wanted)

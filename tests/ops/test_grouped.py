"""Grouped matrix products, compared with PyTorch's."""

import numpy as np
import pytest

import metatensor as mt
from metatensor.nn import functional as F

# Shapes, ends of the groups, and whether the second factor is created transposed.
CASES = [
    ((8, 16), (3, 16, 24), [2, 5, 8], False),
    ((8, 16), (3, 24, 16), [2, 2, 8], True),
    ((3, 8, 16), (3, 16, 24), None, False),
    ((3, 8, 16), (3, 12, 16), None, True),
    ((8, 16), (16, 24), [4, 4, 16], False),
    ((3, 8, 16), (16, 24), [8, 16, 24], False),
    ((0, 16), (3, 16, 24), [0, 0, 0], False),
    ((8, 16), (2, 16, 24), [2, 5, 8], False),
    ((8, 16), (3, 8, 24), [2, 5, 8], False),
    ((8, 16), (3, 16, 24), None, False),
    ((3, 8, 16), (3, 16, 24), [2, 5, 8], False),
    ((3, 8, 16), (2, 16, 24), None, False),
    ((16,), (2, 16, 24), [2, 5], False),
    ((8, 16), (3, 16, 10), [2, 5, 8], False),
]


def arguments(t, case, dtype, device):
    left, right, ends, transposed = case
    rng = np.random.default_rng(0)
    a, b = (
        t.from_numpy(rng.standard_normal(shape).astype("float32")) if 0 not in shape else t.zeros(shape) for shape in (left, right)
    )
    a, b = (x.to(getattr(t, dtype)).to(device) for x in (a, b))
    offs = None if ends is None else t.tensor(ends, dtype=t.int32, device=device)
    return a, b.mT if transposed else b, offs


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case, dtype):
    torch = pytest.importorskip("torch")
    a, b, offs = arguments(torch, case, dtype, "cpu")
    try:
        theirs = torch.nn.functional.grouped_mm(a, b, offs=offs)
    except RuntimeError:
        for device in ("cpu", "meta"):
            a, b, offs = arguments(mt, case, dtype, device)
            with pytest.raises(RuntimeError):
                F.grouped_mm(a, b, offs=offs)
        return
    a, b, offs = arguments(mt, case, dtype, "cpu")
    ours = F.grouped_mm(a, b, offs=offs)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == dtype
    np.testing.assert_allclose(ours.float().numpy(), theirs.float().numpy(), rtol=2e-2, atol=5e-2 if dtype != "float32" else 1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("case", CASES, ids=str)
def test_metadata(case):
    torch = pytest.importorskip("torch")
    try:
        a, b, offs = arguments(torch, case, "bfloat16", "meta")
        theirs = torch.nn.functional.grouped_mm(a, b, offs=offs)
    except RuntimeError:
        return
    a, b, offs = arguments(mt, case, "bfloat16", "meta")
    ours = F.grouped_mm(a, b, offs=offs)
    assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
    assert mt._grouped_mm(a, b, offs).shape == ours.shape


@pytest.mark.parametrize(
    "options", [{"bias": (3, 24)}, {"out_dtype": mt.float64}, {"offs": (1, 3)}, {"offs": mt.int64}], ids=str
)
def test_errors(options):
    a, b = mt.empty(8, 16, device="meta"), mt.empty(3, 16, 24, device="meta")
    offs = mt.empty(3, dtype=mt.int32, device="meta")
    given = {"offs": offs} | options
    if isinstance(given["offs"], tuple):
        given["offs"] = mt.empty(given["offs"], dtype=mt.int32, device="meta")
    elif given["offs"] is mt.int64:
        given["offs"] = offs.long()
    if "bias" in given:
        given["bias"] = mt.empty(given["bias"], device="meta")
    with pytest.raises(RuntimeError):
        F.grouped_mm(a, b, **given)


def test_flops():
    from metatensor.analysis import estimate

    def flops(a, b, groups):
        offs = mt.empty(groups, dtype=mt.int32, device="meta") if groups else None
        return estimate(lambda x, y: F.grouped_mm(x, y, offs=offs), mt.empty(a, device="meta"), mt.empty(b, device="meta")).flops

    assert flops((8, 16), (3, 16, 24), 3) == 2 * 8 * 16 * 24
    assert flops((3, 8, 16), (3, 16, 24), 0) == 2 * 3 * 8 * 16 * 24
    assert flops((8, 16), (16, 24), 3) == 2 * 8 * 16 * 24
    assert flops((3, 8, 16), (16, 24), 3) == 2 * 8 * 16 * 24


def numeric(t):
    return np.asarray(t.detach().float().cpu().numpy())


GRADIENTS = CASES[:7] + [
    ((8, 16), (3, 10, 16), [2, 5, 8], True),  # gradients with rows of 40 bytes
    ((8, 16), (3, 16, 24), [2, 5, 6], False),  # rows outside all groups
]


@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_gradients(case, device):
    """Gradients are those of the products of the groups, one by one; a gradient may have any strides."""
    a, b, offs = arguments(mt, case, "float32", device)
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    out = F.grouped_mm(a, b, offs=offs)
    ends = case[2] or []
    spans = list(zip([0, *ends[:-1]], ends))
    for upstream in (mt.arange(float(out.numel()), device=device).reshape(out.shape) / 100, mt.ones((), device=device).expand(out.shape)):
        found = mt.autograd.grad(out, (a, b), upstream, retain_graph=True)
        if offs is None:
            expected = mt.autograd.grad(a @ b, (a, b), upstream)
        else:
            parts = []
            for group, (start, end) in enumerate(spans):
                if a.dim() == b.dim():
                    parts.append((a[:, start:end] @ b[start:end], upstream[group]))
                elif a.dim() == 2:
                    parts.append((a[start:end] @ b[group], upstream[start:end]))
                else:
                    parts.append((a[group] @ b[:, start:end], upstream[:, start:end]))
            expected = mt.autograd.grad([one for one, _ in parts], (a, b), [one for _, one in parts])
        for mine, other, factor in zip(found, expected, (a, b)):
            np.testing.assert_allclose(numeric(mine), numeric(other), rtol=1e-5, atol=1e-4)
            assert mine.stride() == factor.stride() or not mine.numel()


@pytest.mark.torch
@pytest.mark.parametrize("case", GRADIENTS[:5], ids=str)
def test_gradients_have_the_layout_of_torch(case):
    torch = pytest.importorskip("torch")
    results = []
    for t in (torch, mt):
        a, b, offs = arguments(t, case, "float32", "cpu")
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        out = (t.nn.functional if t is torch else F).grouped_mm(a, b, offs=offs)
        upstream = t.arange(float(out.numel())).reshape(tuple(out.shape)) / 100
        results.append(t.autograd.grad(out, (a, b), upstream))
    for theirs, mine in zip(*results):
        assert theirs.stride() == mine.stride()
        np.testing.assert_allclose(theirs.numpy(), numeric(mine), rtol=1e-4, atol=1e-3)

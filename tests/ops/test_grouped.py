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

"""The values of constants on meta, computed with Python's numbers, are those of the cpu device."""

import math

import pytest

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor.deferred import known

pytest.importorskip("metatensor_cpu")

inf, nan = math.inf, math.nan
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("bool", "uint8", "int8", "int16", "int32", "int64")
DTYPES = (*FLOATS, *INTS)
VALUES = {
    "float": [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 0.1, 100.25, 1e-4, 60000.0, -60000.0, inf, -inf, nan],
    "bool": [False, True, True, False], "uint8": [0, 1, 2, 3, 7, 100, 127, 128, 200, 255],
    "int": [0, 1, -1, 2, 3, -3, 7, -7, 100, -100, 127, -128],
}  # fmt: skip
SCALARS = (0, 1, 2, -1, 3, 200, -200, 0.5, -0.5, 2.5, inf, -inf, nan, True, 1 << 40)


def values_of(dtype):
    found = VALUES["float" if dtype in FLOATS else dtype if dtype in ("bool", "uint8") else "int"]
    widest = {"int16": [32767, -32768], "int32": [2**31 - 1, -(2**31)], "int64": [2**63 - 1, -(2**63), 2**53 + 1]}
    return found + widest.get(dtype, [])


def tensor(values, dtype):
    return mt.tensor(values, dtype=getattr(mt, dtype), device="meta")


def pairs(dtype, other=None):
    """Return two tensors with all pairs of values."""
    one, two = values_of(dtype), values_of(other or dtype)
    return tensor([a for a in one for _ in two], dtype), tensor([b for _ in one for b in two], other or dtype)


def line(dtype):
    return tensor(values_of(dtype), dtype)


def grid(dtype):
    values = values_of(dtype)
    return tensor([values[i : i + 3] for i in range(len(values) - 2)], dtype)


F = mt.nn.functional
UNARY = (
    "abs", "sign", "square", "isnan", "isinf", "isfinite", "bitwise_not", "logical_not", "neg", "round", "floor", "ceil",
    "trunc", "sqrt", "exp",
    "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh", "rsqrt", "exp2", "sigmoid", "reciprocal", "relu", "clone",
)  # fmt: skip
BINARY = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum",
    "minimum", "pow", "div", "floor_divide", "remainder", "fmod", "add", "sub", "mul", "rsub",
)  # fmt: skip
REDUCTIONS = ("sum", "prod", "mean", "any", "all", "count_nonzero", "max", "min", "amax", "amin", "argmax", "argmin")
CASES = {
    **{name: lambda d, f=getattr(mt, name): f(line(d)) for name in UNARY},
    **{name: lambda d, f=getattr(mt, name): f(*pairs(d)) for name in BINARY},
    **{name: lambda d, f=getattr(mt, name): f(grid(d)) for name in REDUCTIONS},
    **{f"{name} by rows": lambda d, f=getattr(mt, name): f(grid(d), 1) for name in REDUCTIONS},
    **{f"{name} of one": lambda d, f=getattr(mt, name): [f(line(d)[i : i + 1]) for i in range(len(values_of(d)))] for name in REDUCTIONS},
    **{f"div {mode}": lambda d, mode=mode: mt.div(*pairs(d), rounding_mode=mode) for mode in ("floor", "trunc")},
    "clamp": lambda d: [line(d).clamp(-1, 2), line(d).clamp(tensor(1, d)), line(d).clamp(max=tensor(1, d))],
    "where": lambda d: [mt.where(a > b, a, b) for a, b in [pairs(d)]],
    "masked_fill": lambda d: [line(d).masked_fill(line(d) == line(d), 3), line(d).masked_fill_(line(d) != line(d), 1)],
    "cumsum": lambda d: [mt.cumsum(grid(d), 1), mt.cumsum(line(d), 0)], "cumprod": lambda d: mt.cumprod(grid(d), 1),
    "allclose": lambda d: [mt.allclose(a, b, equal_nan=e) for i in range(len(values_of(d))) for a in [line(d)[i : i + 1]]
                           for j in range(len(values_of(d))) for b in [line(d)[j : j + 1]] for e in (False, True)],
    "full": lambda d: [mt.full((2,), v, dtype=getattr(mt, d), device="meta") for v in SCALARS],
    "fill": lambda d: [line(d).fill_(v) for v in SCALARS], "copy": lambda d: [_copied(line(e), d) for e in DTYPES],
    "to": lambda d: [line(d).to(getattr(mt, e)) for e in DTYPES],
    "maximum of two": lambda d: [mt.max(*pairs(d)), mt.min(*pairs(d))],
}  # fmt: skip
for _name in ("pow", "fmod", "clamp_min", "clamp_max"):
    for _scalar in SCALARS:
        CASES[f"{_name} with {_scalar!r}"] = lambda d, f=getattr(mt, _name), v=_scalar: f(line(d), v)

ROUNDED = ("exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh", "rsqrt", "exp2", "sigmoid", "sum",
"prod", "mean", "pow",
           "cumsum", "cumprod", "matmul", "outer", "linspace", "arange", "sqrt")  # fmt: skip
"""Operators whose last bit may differ."""


def _copied(source, dtype):
    return tensor([0] * source.numel(), dtype).copy_(source)


def computed(case, dtype):
    """Return what the operators of a case give: for each result its dtype, shape and elements. None if they refuse."""
    try:
        made = case(dtype)
        found = []
        for one in made if isinstance(made, (list, tuple)) else [made]:
            if isinstance(one, mt.Tensor):
                assert known.is_constant(one)
                data = known.known_bytes(one)
                found.append((one.dtype, tuple(one.shape), mt.frombuffer(bytearray(data), dtype=one.dtype).tolist() if data else []))
            else:
                found.append(one)
        return found
    except DataDependentError:
        return None


def same(a, b, dtype, rounded, either):
    if a != a or b != b:
        return a != a and b != b
    if isinstance(a, float) and a == 0 == b and not either:
        return math.copysign(1, a) == math.copysign(1, b)
    if a == b and type(a) is type(b):
        return True
    if not rounded or not isinstance(a, float) or math.isinf(a) or math.isinf(b):
        return False
    return abs(a - b) <= max(4 * mt.finfo(dtype).eps * max(abs(a), abs(b)), mt.finfo(dtype).tiny)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_values_are_those_of_the_cpu(name, dtype, monkeypatch):
    with mt.device("meta"):
        try:
            want = computed(CASES[name], dtype)
        except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError, IndexError, OverflowError) as error:
            pytest.skip(f"not for this dtype: {error}")
        monkeypatch.setattr(known, "_has_cpu", lambda: False)
        got = computed(CASES[name], dtype)
    if got is None or want is None:
        return
    rounded, either = name.split()[0] in ROUNDED, name.split()[0] in ("amin", "amax", "min", "max")  # of zeros, any
    assert len(got) == len(want)
    for a, b in zip(got, want):
        if not isinstance(a, tuple):
            assert a is b
            continue
        assert a[:2] == b[:2]
        wrong = [(i, x, y) for i, (x, y) in enumerate(zip(a[2], b[2], strict=True)) if not same(x, y, a[0], rounded, either)]
        assert not wrong, f"{a[0]}: (place, with Python's numbers, on cpu) {wrong[:5]}"


def test_masked_select_of_constants_has_a_gradient():
    with mt.device("meta"):
        x = mt.arange(4.0).requires_grad_()
        y = mt.masked_select(x * 2, mt.tensor([True, False, True, True]))
        assert y.requires_grad and y.shape == (3,) and y.tolist() == [0, 4, 6]
        y.sum().backward()
    assert x.grad.shape == (4,)
    with mt.device("meta"), mt.no_grad():
        assert not mt.masked_select(x, x > 1).requires_grad

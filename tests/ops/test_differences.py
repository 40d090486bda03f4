"""diff, gradient and the trapezoid rules: metadata compared with PyTorch, and values on every device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dims, layouts

DTYPES = ("uint8", "int64", "float16", "float32", "complex64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_diff(data):
    layout = data.draw(layouts(min_dims=1))
    dim, n = data.draw(dims(len(layout[0]))), data.draw(st.integers(-1, 5))
    conform(lambda m, x: m.diff(x, n, dim), (layout, data.draw(st.sampled_from([*DTYPES, "bool"]))))
    conform(lambda m, x: m.diff(x, n, dim, x, x), (layout, "float32"))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_trapezoid(data):
    layout = data.draw(layouts(min_dims=1, min_size=1))
    dim = data.draw(dims(len(layout[0]), wrong=False))
    n = layout[0][dim]
    points = data.draw(st.sampled_from([((n,), (1,)), ((n + 1,), (1,)), layout]))
    given_ = layout, data.draw(st.sampled_from(DTYPES))
    for name in ("trapezoid", "cumulative_trapezoid"):
        conform(lambda m, y, name=name: getattr(m, name)(y, dx=2.5, dim=dim), given_)
        conform(lambda m, y, x, name=name: getattr(m, name)(y, x, dim=dim), given_, (points, "float32"))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_gradient(data):
    layout = data.draw(layouts(min_dims=1, min_size=1))
    n, order = len(layout[0]), data.draw(st.integers(1, 3))
    dim = data.draw(st.none() | dims(n) | st.lists(dims(n), min_size=1, max_size=2))
    conform(lambda m, x: m.gradient(x, dim=dim, edge_order=order), (layout, "float32"))
    conform(lambda m, x: m.gradient(x, spacing=2.0, dim=dim), (layout, "float32"))
    conform(lambda m, x: m.gradient(x, spacing=[1.0, 2.0], dim=dim), (layout, "float32"))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.diff(meta(3), -1), RuntimeError, "diff.*-1"),
        (lambda: mt.diff(meta()), RuntimeError, "diff"),
        (lambda: mt.trapezoid(meta(2, 3), meta(4)), RuntimeError, r"trapezoid.*\[2, 3\].*\[4\]"),
        (lambda: mt.gradient(meta(3, 1)), RuntimeError, r"gradient.*\[3, 1\]"),
        (lambda: mt.gradient(meta(3), edge_order=3), RuntimeError, "gradient.*3"),
        (lambda: mt.gradient(meta(3, 3), spacing=[1.0]), RuntimeError, "gradient"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype, device):
    y, x = numbers(dtype, (4, 6)), np.sort(numbers("float32", (6,), 1))
    agree(lambda m, t: (m.diff(t), m.diff(t, 2, 0), m.diff(t, 1, 1, t[:, :1], t)), y, dtype=dtype, device=device)
    agree(lambda m, t: (m.trapezoid(t), m.trapz(t, dx=0.5, dim=0), m.cumulative_trapezoid(t)), y, dtype=dtype, device=device)
    for order in (1, 2):
        agree(lambda m, t, e=order: m.gradient(t, edge_order=e), y, dtype=dtype, device=device)
        agree(lambda m, t, e=order: m.gradient(t, spacing=0.5, dim=1, edge_order=e), y, dtype=dtype, device=device)
    if dtype != "float16":
        same = "float32" if "int" in dtype else dtype
        agree(lambda m, t, x: (m.trapezoid(t, x), m.cumulative_trapezoid(t, x)), y.astype(same), x.astype(same), device=device)
        for order in (1, 2):
            agree(lambda m, t, x, e=order: m.gradient(t, spacing=[x], dim=1, edge_order=e), y.astype(same), x.astype(same), device=device)

"""`assert_shapes`: compare the shapes and dtypes of tensors with a pattern such as ``float32[batch,10]``."""

from __future__ import annotations

import re
from typing import Any

import metatensor as mt

__all__ = ["assert_shapes"]

_PATTERN = re.compile(r"\s*(\w*)\s*\[([^\[\]]*)\]\s*")


def assert_shapes(value: Any, expected: Any, /, **sizes: int) -> dict[str, int]:
    """Raise AssertionError if tensors do not have the expected shapes and dtypes. Return the sizes by name.

    Parameters
    ----------
    value : Tensor or nested containers of tensors
        What is tested.
    expected : str, or nested containers of str
        Patterns with the structure of `value`: ``"float32[batch,10]"``, or ``"[batch,10]"`` for any dtype. A size is a
        number, a name, or ``_`` for any size. ``...`` stands for any number of dimensions. All uses of a name must have the
        same size. None matches a value of None.
    **sizes : int
        Sizes that names must have.

    Raises
    ------
    AssertionError
        If something differs. The message names where.
    ValueError
        If a pattern is invalid.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.testing import assert_shapes
    >>> x, hidden = mt.empty(8, 3, 32, 32, device="meta"), mt.empty(8, 64, device="meta")
    >>> assert_shapes((x, hidden), ("float32[batch,3,_,_]", "[batch,width]"))
    {'batch': 8, 'width': 64}
    >>> assert_shapes(hidden, "float16[...,64]")
    Traceback (most recent call last):
        ...
    AssertionError: the tensor is float32[8,64], expected float16[...,64]
    """
    found = dict(sizes)
    _compare(value, expected, "", found)
    return found


def _compare(value: Any, expected: Any, place: str, sizes: dict[str, int]) -> None:
    where = f"the value at {place}" if place else "the value"
    if isinstance(expected, str):
        if not isinstance(value, mt.Tensor):
            raise AssertionError(f"{where} is of type {type(value).__name__}, expected a tensor {expected}")
        _compare_tensor(value, expected, f"the tensor at {place}" if place else "the tensor", sizes)
    elif expected is None:
        if value is not None:
            raise AssertionError(f"{where} is of type {type(value).__name__}, expected None")
    elif isinstance(expected, dict):
        keys = list(value) if isinstance(value, dict) else None
        if keys is None or set(keys) != set(expected):
            got = f"of type {type(value).__name__}" if keys is None else f"a dict with the keys {', '.join(map(repr, keys))}"
            raise AssertionError(f"{where} is {got}, expected a dict with the keys {', '.join(map(repr, expected))}")
        for key, pattern in expected.items():
            _compare(value[key], pattern, f"{place}[{key!r}]", sizes)
    elif isinstance(expected, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(expected):
            got = f"{len(value)} values" if isinstance(value, (list, tuple)) else f"of type {type(value).__name__}"
            raise AssertionError(f"{where} is {got}, expected {len(expected)} values")
        for i, (item, pattern) in enumerate(zip(value, expected, strict=True)):
            _compare(item, pattern, f"{place}[{i}]", sizes)
    else:
        raise ValueError(f"assert_shapes: expected patterns such as 'float32[batch,10]', got {type(expected).__name__}")


def _compare_tensor(tensor: Any, pattern: str, where: str, sizes: dict[str, int]) -> None:
    match = _PATTERN.fullmatch(pattern)
    if match is None:
        raise ValueError(f"assert_shapes: {pattern!r} is not a pattern such as 'float32[batch,10]'")
    dtype, dims = match[1], [dim.strip() for dim in match[2].split(",")] if match[2].strip() else []
    if any(not re.fullmatch(r"\d+|[A-Za-z_]\w*|\.\.\.", dim) for dim in dims) or dims.count("...") > 1:
        raise ValueError(f"assert_shapes: {pattern!r} is not a pattern such as 'float32[batch,10]'")
    if dtype and not isinstance(getattr(mt, dtype, None), mt.dtype):
        raise ValueError(f"assert_shapes: {pattern!r} names {dtype!r}, which is not a dtype")
    is_ = f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
    wrong = f"{where} is {is_}, expected {pattern.strip()}"
    if dtype and tensor.dtype != getattr(mt, dtype):
        raise AssertionError(wrong)
    shape = tuple(tensor.shape)
    if "..." in dims:
        at, missing = dims.index("..."), len(shape) - len(dims) + 1
        dims[at : at + 1] = ["_"] * max(missing, 0)
    if len(dims) != len(shape):
        raise AssertionError(wrong)
    for dim, size in zip(dims, shape, strict=True):
        wanted = int(dim) if dim.isdigit() else size if dim == "_" else sizes.setdefault(dim, size)
        if size != wanted:
            raise AssertionError(wrong if dim.isdigit() else f"{wrong} with {dim} = {wanted}")

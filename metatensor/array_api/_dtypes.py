"""The dtypes of the array API standard, their kinds, and type promotion.

The standard promotes only by dtype, regardless of the number of dimensions. The operators of tensors follow PyTorch,
where a 0-d tensor has less influence on the result than others. Functions of this namespace therefore convert their
arguments to one dtype first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import metatensor as mt

__all__ = [
    "DTYPES", "array", "astype", "can_cast", "default_dtype", "finfo", "floating", "iinfo", "isdtype", "of_kind", "pair",
    "result_type", "sum_dtype", "together",
]  # fmt: skip

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
# The standard's dtypes by kind, under the standard's names.
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
    "numeric": (*_SIGNED, *_UNSIGNED, "float32", "float64", "complex64", "complex128"),
}
# Dtypes that are not in the standard but belong to one of its kinds.
_MORE = {"real floating": ("float16", "bfloat16"), "complex floating": ("complex32",)}
DTYPES: dict[str, Any] = {name: getattr(mt, name) for name in ("bool", *KINDS["numeric"])}


def _wide_promotions() -> dict[tuple[Any, Any], Any]:
    """Return the promotions that involve unsigned integers, by pair of dtypes.

    PyTorch defines none for uint16, uint32 and uint64.
    """
    table = {}
    for i, unsigned in enumerate(_UNSIGNED):
        for j, other in enumerate(_UNSIGNED):
            table[unsigned, other] = _UNSIGNED[max(i, j)]
        for j, signed in enumerate(_SIGNED):
            if max(i + 1, j) < len(_SIGNED):  # no dtype holds both uint64 and a signed integer
                table[unsigned, signed] = table[signed, unsigned] = _SIGNED[max(i + 1, j)]
        for other in ("bool", "complex64", "complex128"):
            table[unsigned, other] = table[other, unsigned] = unsigned if other == "bool" else other
    return {(DTYPES[a], DTYPES[b]): DTYPES[c] for (a, b), c in table.items()}


_WIDE = _wide_promotions()


def _join(a: Any, b: Any) -> Any:
    if a is b:
        return a
    found = _WIDE.get((a, b))
    if found is not None:
        return found
    try:
        return mt.promote_types(a, b)
    except RuntimeError:
        raise TypeError(f"{a.name} and {b.name} have no common dtype") from None


def default_dtype(number: Any) -> Any:
    """Return the dtype that a Python number implies."""
    if isinstance(number, bool):
        return mt.bool
    if isinstance(number, int):
        return mt.int64
    if isinstance(number, float):
        return mt.get_default_dtype()
    if isinstance(number, complex):
        return mt.get_default_dtype().to_complex()
    raise TypeError(f"expected a tensor or a Python number, got {type(number).__name__}")


def _with_number(dtype: Any, number: Any) -> Any:
    """Return the dtype of an operation on a tensor of `dtype` and a Python number.

    It is the tensor's dtype unless the number is of a higher kind.
    """
    own = default_dtype(number)
    if own is mt.bool or dtype.is_complex:
        return dtype
    if own.is_complex:
        return dtype.to_complex() if dtype.is_floating_point else own
    if dtype.is_floating_point:
        return dtype
    if own.is_floating_point:
        return own
    return own if dtype is mt.bool else dtype


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype to which tensors, dtypes and Python numbers promote.

    Raises
    ------
    ValueError
        If there is neither a tensor nor a dtype among the arguments.
    TypeError
        If the dtypes have no common dtype, such as uint64 and a signed integer.

    Examples
    --------
    >>> import metatensor.array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8, 3)
    metatensor.int16
    """
    dtype, numbers = None, []
    for given in arrays_and_dtypes:
        if isinstance(given, mt.Tensor):
            given = given.dtype
        if isinstance(given, mt.dtype):
            dtype = given if dtype is None else _join(dtype, given)
        else:
            numbers.append(given)
    if dtype is None:
        raise ValueError("result_type: at least one tensor or dtype is needed")
    for number in numbers:
        dtype = _with_number(dtype, number)
    return dtype


def array(x: Any, name: str = "x") -> Any:
    """Return `x`. Raise TypeError unless it is a tensor."""
    if not isinstance(x, mt.Tensor):
        raise TypeError(f"argument {name} must be a tensor, got {type(x).__name__}")
    return x


def _as(x: Any, like: Any, dtype: Any) -> Any:
    if isinstance(x, mt.Tensor):
        return x if x.dtype is dtype else x.to(dtype)
    return like.new_full((), x, dtype=dtype)


def pair(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Return two operands as tensors of their common dtype. One of them may be a Python number."""
    if isinstance(x1, mt.Tensor) and isinstance(x2, mt.Tensor) and x1.dtype is x2.dtype:
        return x1, x2
    like = x1 if isinstance(x1, mt.Tensor) else array(x2, "x1 or x2")
    dtype = result_type(x1, x2)
    return _as(x1, like, dtype), _as(x2, like, dtype)


def together(tensors: Any) -> list[Any]:
    """Return the tensors, converted to their common dtype."""
    tensors = [array(x, f"arrays[{i}]") for i, x in enumerate(tensors)]
    if not tensors:
        return []
    dtype = result_type(*tensors)
    return [x if x.dtype is dtype else x.to(dtype) for x in tensors]


def floating(x: Any) -> Any:
    """Return `x` if it is floating-point or complex, else `x` converted to the default dtype."""
    return array(x) if x.dtype.is_floating_point or x.dtype.is_complex else x.to(mt.get_default_dtype())


def sum_dtype(x: Any, dtype: Any) -> Any:
    """Return the dtype in which the elements of `x` are summed or multiplied.

    It is `dtype` if given. Otherwise it is uint64 for unsigned integers, int64 for signed integers and bools, and the
    dtype of `x` for other dtypes.
    """
    if dtype is not None:
        return dtype
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return x.dtype
    return mt.uint64 if x.dtype.name in _UNSIGNED else mt.int64


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Return `x` converted to `dtype`.

    Parameters
    ----------
    x : Tensor
    dtype : dtype
    copy : bool
        If False, `x` itself is returned if dtype and device do not change. Default: True.
    device : device, optional
        Default: the device of `x`.

    Raises
    ------
    TypeError
        If `x` is complex and `dtype` is neither complex nor bool. Use `real` or `imag` instead.
    """
    if array(x).dtype.is_complex and not (dtype.is_complex or dtype is mt.bool):
        raise TypeError(f"astype: {x.dtype.name} cannot be converted to {dtype.name}; use the real or the imaginary "
                        "part")
    return x.to(x.device if device is None else device, dtype, copy=copy)


def of_kind(kind: Any, more: bool = False) -> tuple[str, ...]:
    """Return the names of the dtypes of a kind. If `more`, include dtypes that are not in the standard.

    Raise ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of dtype {kind!r}; expected one of {', '.join(map(repr, KINDS))}")
    extra = [n for name, names in _MORE.items() if more and kind in (name, "numeric") for n in names]
    return (*KINDS[kind], *extra)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether `dtype` is of the given kind.

    Parameters
    ----------
    dtype : dtype
    kind : dtype, str, or tuple of these
        The names are "bool", "signed integer", "unsigned integer", "integral", "real floating" (which includes float16
        and bfloat16), "complex floating" and "numeric". A tuple matches if any of its members does.

    Raises
    ------
    ValueError
        If the name of the kind is unknown.
    TypeError
        If `kind` is of another type.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, mt.dtype):
        return dtype is kind
    if not isinstance(kind, str):
        raise TypeError(f"isdtype: expected a dtype, the name of a kind, or a tuple of those, got {kind!r}")
    return dtype.name in of_kind(kind, more=True)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Return whether a dtype, or the dtype of a tensor, promotes to the dtype `to`.

    The result is False between bool and any other dtype, and from an integer dtype to a floating-point or complex one.
    """
    source = from_.dtype if isinstance(from_, mt.Tensor) else from_
    if not isinstance(source, mt.dtype) or not isinstance(to, mt.dtype):
        raise TypeError(
            "can_cast: from_ must be a dtype or a tensor, and to must be a dtype, "
            f"got {type(from_).__name__} and {type(to).__name__}"
        )
    if source is to:
        return True
    if (source is mt.bool) or (to.is_floating_point or to.is_complex) and not (source.is_floating_point or source.is_complex):
        return False  # no promotion between bools, integers and floating-point numbers
    try:
        return bool(_join(source, to) is to)
    except TypeError:
        return False


@dataclass(frozen=True)
class finfo_object:
    """Limits of a floating-point dtype, or of the real and imaginary parts of a complex one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


@dataclass(frozen=True)
class iinfo_object:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def _limits(found: Callable[[Any], Any], type: Any) -> Any:
    return found(type.dtype if isinstance(type, mt.Tensor) else type)


def finfo(type: Any, /) -> finfo_object:
    """Return the limits of a floating-point or complex dtype, or of the dtype of a tensor.

    Raise TypeError for other dtypes.
    """
    found = _limits(mt.finfo, type)
    return finfo_object(found.bits, found.eps, found.max, found.min, found.smallest_normal, getattr(mt, found.dtype))


def iinfo(type: Any, /) -> iinfo_object:
    """Return the limits of an integer dtype, or of the dtype of a tensor. Raise TypeError for other dtypes."""
    found = _limits(mt.iinfo, type)
    return iinfo_object(found.bits, found.max, found.min, getattr(mt, found.dtype))

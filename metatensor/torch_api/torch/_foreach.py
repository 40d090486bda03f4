"""The ``_foreach_`` functions, which apply an operator to each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt

__all__: list[str] = []

UNARY = ("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt "
         "sigmoid sign sin sinh sqrt tan tanh trunc").split()  # fmt: skip
BINARY = "add sub mul div clamp_max clamp_min pow maximum minimum copysign".split()
OPERATORS = {"maximum": "maximum", "minimum": "minimum"}


def _op(name: str) -> Callable[..., Any]:
    return getattr(mt.Tensor, name)  # type: ignore[no-any-return]


def _spread(name: str, n: int, value: Any) -> list[Any]:
    """Return a list of `n` values: `value` itself if it is a list, else `value` repeated."""
    if isinstance(value, (list, tuple)):
        if len(value) != n:
            raise RuntimeError(f"{name}: expected lists of equal length, got {n} and {len(value)}")
        return list(value)
    return [value] * n


def _fit(op: str, other: Any, like: Any) -> Any:
    """Convert a number to a tensor for operators that accept only tensors."""
    if op in ("maximum", "minimum") and not isinstance(other, mt.Tensor):
        return mt.tensor(other, dtype=like.dtype, device=like.device)
    return other


def _make(op: str, arity: int, in_place: bool) -> Callable[..., Any]:
    name = f"_foreach_{op}{'_' if in_place else ''}"

    def foreach(self: Any, *others: Any, **options: Any) -> Any:
        tensors = list(self)
        if not tensors:
            raise RuntimeError(f"{name}: expected at least one tensor")
        if len(others) > arity:
            options["value" if op.startswith("addc") else "alpha"] = others[arity]
            others = others[:arity]
        scale = options.pop("value", 1) if op.startswith("addc") else None
        columns = [_spread(name, len(tensors), other) for other in others]
        scales = _spread(name, len(tensors), scale)
        results = []
        for i, tensor in enumerate(tensors):
            rest = [_fit(op, column[i], tensor) for column in columns]
            extra = dict(options, value=scales[i]) if scale is not None else options
            if op == "clamp_max" and isinstance(rest[0], mt.Tensor) or op == "maximum" and in_place:
                result = (mt.minimum if op == "clamp_max" else mt.maximum)(tensor, rest[0])
                results.append(tensor.copy_(result) if in_place else result)
            elif op in ("minimum",) and in_place:
                results.append(tensor.copy_(mt.minimum(tensor, rest[0])))
            else:
                results.append(_op(op + "_" if in_place else op)(tensor, *rest, **extra))
        return None if in_place else tuple(results)

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"Apply `{op}` to each tensor{', in place' if in_place else ''}. Other arguments are lists or single values."
    return foreach


for _name in UNARY + BINARY + ["addcmul", "addcdiv", "lerp"]:
    _arity = 0 if _name in UNARY else 2 if _name in ("addcmul", "addcdiv", "lerp") else 1
    for _in_place in (False, True):
        _function = _make(_name, _arity, _in_place)
        globals()[_function.__name__] = _function
        __all__.append(_function.__name__)


def _foreach_zero_(self: Any) -> None:
    """Fill each tensor with zeros."""
    for tensor in self:
        tensor.zero_()


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> None:
    """Copy each tensor of `src` into the tensor at the same position."""
    for tensor, other in zip(self, _spread("_foreach_copy_", len(self), src), strict=True):
        tensor.copy_(other, non_blocking=non_blocking)


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple:
    """Return the vector norm of each tensor."""
    return tuple(mt.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self)


def _foreach_max(self: Any) -> tuple:
    """Return the largest element of each tensor."""
    return tuple(tensor.max() for tensor in self)


__all__ += ["_foreach_copy_", "_foreach_max", "_foreach_norm", "_foreach_zero_"]

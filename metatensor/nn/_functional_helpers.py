"""Python helpers that libraries import from ``nn.functional``: checks, sizes and dispatch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.op import op_by_name
from metatensor._core.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from metatensor.nn.modules.utils import _pair, _single, _triple

__all__ = [
    "_canonical_mask",
    "_check_key_padding_mask",
    "_get_softmax_dim",
    "_in_projection",
    "_in_projection_packed",
    "_is_integer",
    "_list_with_default",
    "_mha_shape_check",
    "_no_grad_embedding_renorm_",
    "_none_or_dtype",
    "_pair",
    "_single",
    "_triple",
    "_unpool_output_size",
    "_verify_batch_size",
    "_verify_spatial_size",
    "assert_int_or_pair",
    "boolean_dispatch",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
]


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str | None, func_name: str | None
) -> Callable[..., Any]:
    """Return a function that calls ``if_true`` or ``if_false``, depending on the bool argument ``arg_name``."""

    @wraps(if_false)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return if_true(*args, **kwargs) if flag else if_false(*args, **kwargs)

    chosen.__module__ = module_name or chosen.__module__
    chosen.__name__ = func_name or chosen.__name__
    return chosen


# Sizes -----------------------------------------------------------------------------------------------------------------


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Return ``out_size`` with each None replaced by the default of the same dimension, counted from the last.

    Raise ValueError if there are not more defaults than sizes.
    """
    if isinstance(out_size, int):
        return out_size
    batch = len(defaults) - len(out_size)
    if batch < 1:
        raise ValueError(f"output_size has {len(out_size)} elements, so the input needs more dimensions than its {len(defaults)}")
    return [defaults[batch + i] if size is None else size for i, size in enumerate(out_size)]


def _verify_batch_size(size: Sequence[int]) -> None:
    """Raise ValueError if each channel has a single value in the batch."""
    if size[0] * prod(size[2:]) == 1:
        raise ValueError(f"each channel must have more than one value in the batch in training, got an input of shape {list(size)}")


def _verify_spatial_size(size: Sequence[int]) -> None:
    """Raise ValueError if each channel of an example has a single value."""
    if prod(size[2:]) == 1:
        raise ValueError(f"each channel must have more than one element per example in training, got an input of shape {list(size)}")


def _unpool_output_size(
    input: Any, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], output_size: Sequence[int] | None
) -> list[int]:
    """Return the spatial sizes of the output of unpooling.

    Raise ValueError if an image of ``output_size`` could not have been pooled to this input.
    """
    dims = len(kernel_size)
    usual = [
        (size - 1) * step + window - 2 * border
        for size, step, window, border in zip(input.shape[-dims:], stride, kernel_size, padding, strict=True)
    ]
    if output_size is None:
        return usual
    given = list(output_size[2:] if len(output_size) == dims + 2 else output_size)
    if len(given) != dims:
        raise ValueError(f"output_size must have {dims} or {dims + 2} elements, got {len(given)}")
    for size, default, step in zip(given, usual, stride, strict=True):
        if not default - step < size < default + step:
            raise ValueError(f"output_size {given} must differ by less than the stride {list(stride)} from {usual}")
    return given


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raise AssertionError with ``message``, formatted with the name, unless ``arg`` is an int or has two elements."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def _is_integer(x: Any) -> bool:
    """Return True for an int or a tensor of a non-floating-point dtype."""
    return isinstance(x, int) or isinstance(x, mt.Tensor) and not x.is_floating_point()


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """Return the implicit dimension of a softmax called without ``dim``, and warn."""
    warnings.warn(f"{name}: pass dim explicitly; otherwise it depends on the input's number of dimensions", stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def _no_grad_embedding_renorm_(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that ``input`` indexes down to norm ``max_norm``, in place."""
    mt.embedding_renorm_(weight.detach(), input, max_norm, norm_type)


# Attention -------------------------------------------------------------------------------------------------------------


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return op_by_name("nn.functional.linear")(x, weight, bias)


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> tuple[Any, Any, Any]:
    """Return the projections of query, key and value, each by one third of a packed weight.

    Arguments that are the same object are projected with a single product.
    """
    width = q.size(-1)

    def parts(x: Any, weight: Any, bias: Any, count: int) -> tuple[Any, ...]:
        found = _linear(x, weight, bias).unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return tuple(found[at] for at in range(count))

    if q is k is v:
        return parts(q, w, b, 3)  # type: ignore[return-value]
    if k is v:
        head, tail = w.split([width, 2 * width])
        head_bias, tail_bias = (None, None) if b is None else b.split([width, 2 * width])
        return (_linear(q, head, head_bias), *parts(k, tail, tail_bias, 2))  # type: ignore[return-value]
    biases = (None, None, None) if b is None else b.chunk(3)
    return tuple(map(_linear, (q, k, v), w.chunk(3), biases))  # type: ignore[return-value]


def _in_projection(
    q: Any, k: Any, v: Any, w_q: Any, w_k: Any, w_v: Any, b_q: Any = None, b_k: Any = None, b_v: Any = None
) -> tuple[Any, Any, Any]:
    """Return the projections of query, key and value by separate weights.

    Raise AssertionError for a weight or bias of the wrong shape.
    """
    width = q.size(-1)
    for name, x, weight, bias in (("q", q, w_q, b_q), ("k", k, w_k, b_k), ("v", v, w_v, b_v)):
        if tuple(weight.shape) != (width, x.size(-1)):
            raise AssertionError(f"w_{name} must have shape {(width, x.size(-1))}, got {tuple(weight.shape)}")
        if bias is not None and tuple(bias.shape) != (width,):
            raise AssertionError(f"b_{name} must have shape {(width,)}, got {tuple(bias.shape)}")
    return _linear(q, w_q, b_q), _linear(k, w_k, b_k), _linear(v, w_v, b_v)


def _mha_shape_check(query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int) -> bool:
    """Return True if the inputs of attention have a batch dimension.

    Raise AssertionError if their numbers of dimensions are inconsistent.
    """
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"query must have 2 or 3 dimensions, got {dims}")
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(f"key and value must have {dims} dimensions like query, got {key.dim()} and {value.dim()}")
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(f"key_padding_mask must have {dims - 1} dimensions, got {key_padding_mask.dim()}")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"attn_mask must have 2 or 3 dimensions, got {attn_mask.dim()}")
        shape = (num_heads, query.shape[0], key.shape[0])
        if dims == 2 and attn_mask.dim() == 3 and tuple(attn_mask.shape) != shape:
            raise AssertionError(f"attn_mask must have shape {shape}, got {tuple(attn_mask.shape)}")
    return bool(dims == 3)


def _canonical_mask(
    mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Any:
    """Return a mask in additive form: a bool mask becomes minus infinity where it is True.

    Raise AssertionError for an integer mask.
    """
    if mask is None:
        return None
    if mask.dtype is not mt.bool and not mask.is_floating_point():
        raise AssertionError(f"{mask_name} must be bool or floating-point, got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"{mask_name} and {other_name} should have the same dtype", stacklevel=2)
    if mask.is_floating_point():
        return mask
    return mt.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _none_or_dtype(input: Any) -> Any:
    """Return the dtype of a tensor, or None for None. Raise RuntimeError for anything else."""
    if input is None or isinstance(input, mt.Tensor):
        return None if input is None else input.dtype
    raise RuntimeError(f"expected a tensor or None, got {type(input).__name__}")


def _check_key_padding_mask(key_padding_mask: Any, src_len: int, bsz: int) -> None:
    """Raise AssertionError unless the mask has one row per example and one column per key."""
    if tuple(key_padding_mask.shape[:2]) != (bsz, src_len):
        raise AssertionError(f"key_padding_mask must have shape {(bsz, src_len)}, got {tuple(key_padding_mask.shape)}")

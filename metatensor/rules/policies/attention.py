"""Attention in one kernel: the calls for which PyTorch chooses a fused kernel on each device."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops
from metatensor.rules.parts import layers

__all__ = ["cpu_attention", "cpu_attention_parts", "cuda_attention", "cuda_attention_parts", "flash_backward", "flash_for_cpu",
           "flash_for_cpu_backward"]  # fmt: skip

HALF = ("float16", "bfloat16")


def _plain(query: Any, key: Any, value: Any, enable_gqa: bool) -> bool:
    """Return whether the shapes are those of a fused kernel: (batch, heads, length, width), without broadcasting."""
    if not query.dim() == key.dim() == value.dim() == 4 or not (query.numel() and key.numel() and value.numel()):
        return False
    if any(t.stride(-1) != 1 for t in (query, key, value)):
        return False
    heads = query.shape[1] % key.shape[1] == 0 if enable_gqa else query.shape[1] == key.shape[1]
    return (heads and query.shape[0] == key.shape[0] == value.shape[0] and key.shape[1] == value.shape[1]
            and key.shape[2] == value.shape[2] and query.shape[3] == key.shape[3])  # fmt: skip


def _bias(mask: Any, query: Any) -> Any:
    """Return a mask as a term to add to the scores."""
    if mask is None or mask.dtype is not mt.bool:
        return mask
    return ops.empty_like(mask, dtype=query.dtype)


# CUDA -------------------------------------------------------------------------------------------------------


def _cuda(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, enable_gqa: bool, generator: Any,
          record: bool) -> Any:  # fmt: skip
    dtype = query.dtype.name
    if not _plain(query, key, value, enable_gqa) or not 0 <= p < 1:
        return NotImplemented
    same = query.shape[3] == value.shape[3]
    square = not is_causal or query.shape[2] == key.shape[2]
    if dtype in HALF and mask is None and same and query.shape[3] <= 256 and square:
        return ops._scaled_dot_product_flash_attention(query, key, value, p, is_causal, scale=scale, generator=generator)[0]
    if dtype not in (*HALF, "float32") or query.shape[1] != key.shape[1] or (mask is not None and is_causal):
        return NotImplemented
    bias = _bias(mask, query)
    if bias is not None:
        if bias.shape[-1] % 16:  # the kernel requires rows with aligned first elements
            bias = mt.nn.functional.pad(bias, (0, 16 - bias.shape[-1] % 16))[..., : mask.shape[-1]]
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return ops._scaled_dot_product_efficient_attention(
        query, key, value, bias, record, p, is_causal, scale=scale, generator=generator
    )[0]  # fmt: skip


def cuda_attention(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, enable_gqa: bool,
                   generator: Any) -> Any:  # fmt: skip
    """Compute attention with the kernel that PyTorch chooses on CUDA, or return NotImplemented if it has none."""
    return _cuda(query, key, value, mask, p, is_causal, scale, enable_gqa, generator, True)


def cuda_attention_parts(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, enable_gqa: bool,
                         generator: Any) -> Any:  # fmt: skip
    """Create the tensors of the kernel that PyTorch chooses on CUDA without gradients."""
    # Parts must not draw random numbers. The kernel needs no memory for them.
    made = _cuda(query, key, value, mask, 0.0, is_causal, scale, enable_gqa, None, False)
    if made is NotImplemented:
        return layers.attention(query, key, value, mask, p, is_causal, scale, enable_gqa, None)
    return made


def flash_backward(grad: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    """Create the results and the float32 workspaces of FlashAttention-2: the sum over each row, and the gradient of the query."""
    batch, heads, length, width = query.shape
    rows = -(-length // 128) * 128
    wide = -(-width // 32) * 32 if width <= 192 else 256
    made = [ops.empty_like(t) for t in (query, key, value)]
    sums = query.new_empty((batch, heads, rows), dtype=mt.float32)
    total = query.new_empty((batch, rows, heads, wide), dtype=mt.float32)
    each = [t.new_empty((*t.shape[:1], heads, *t.shape[2:])) for t in (key, value)] if heads != key.shape[1] else []
    return made, sums, total, each


# CPU ----------------------------------------------------------------------------------------------------------


def _on_cpu(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, enable_gqa: bool) -> bool:
    """Return whether PyTorch has a fused kernel for a call on the CPU."""
    if not _plain(query, key, value, enable_gqa) or p or query.shape[3] != value.shape[3] or not query.is_floating_point():
        return False
    return mask is None or (mask.dim() in (2, 4) and not mask.requires_grad and not is_causal)


def cpu_attention(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, enable_gqa: bool,
                  generator: Any) -> Any:  # fmt: skip
    """Compute attention with PyTorch's kernel for the CPU, or return NotImplemented if it has none."""
    if not _on_cpu(query, key, value, mask, p, is_causal, enable_gqa):
        return NotImplemented
    return ops._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal, attn_mask=_bias(mask, query), scale=scale)[0]


def cpu_attention_parts(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, enable_gqa: bool,
                        generator: Any) -> Any:  # fmt: skip
    """Create the tensors of PyTorch's attention on the CPU without gradients."""
    if not _on_cpu(query, key, value, mask, p, is_causal, enable_gqa):
        return layers.attention(query, key, value, mask, p, is_causal, scale, enable_gqa, None)
    return flash_for_cpu(query, key, value, p, is_causal, _bias(mask, query), scale)


def _block(query: Any, key: Any) -> tuple[int, int]:
    """Return the numbers of rows of the query and of the key that a thread processes at once."""
    length = query.shape[2]
    return min(length, 256 if length >= 768 else 64 if length >= 192 else 32), min(key.shape[2], 512)


def flash_for_cpu(query: Any, key: Any, value: Any, *rest: Any) -> Any:
    """Create the results and the buffer of one thread."""
    wide = mt.float32 if query.itemsize == 2 else query.dtype
    rows, columns = _block(query, key)
    made = ops.empty_like(query), query.new_empty(query.shape[:3], dtype=wide)
    return made, rest, query.new_empty((rows * columns + 2 * rows + rows * query.shape[3],), dtype=wide)


def flash_for_cpu_backward(grad: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    """Create the gradients, a copy of the gradient of the result, and the buffers of one thread."""
    wide = mt.float32 if query.itemsize == 2 else query.dtype
    rows, columns = _block(query, key)
    made = [ops.zeros_like(t) for t in (query, key, value)]
    return made, grad.transpose(1, 2).contiguous(), query.new_empty((2 * rows * columns,), dtype=wide), query.new_empty((rows,), dtype=wide)

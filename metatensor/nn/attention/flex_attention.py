"""Attention with user functions that change single scores (score_mod) or mask single positions (mask_mod)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, NoReturn, TypedDict

import metatensor as mt
from metatensor._core.late import later
from metatensor.nn.attention._block_mask import DEFAULT_BLOCK, BlockMask, MaskMod, noop_mask, ordered, sliced_mask

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "create_nested_block_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False

_mask_mod_signature = MaskMod
_score_mod_signature = Callable[[Any, Any, Any, Any, Any], Any]

_sliced_mask_mod_error = sliced_mask


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's kernels. They have no effect in metatensor, but invalid combinations raise an error."""

    BACKEND: Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


class AuxRequest(NamedTuple):
    """Auxiliary results to request from `flex_attention`: log-sum-exp and maximum of the scores of each query."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Auxiliary results of `flex_attention`. Results that were not requested are None."""

    lse: Any = None
    max_scores: Any = None


# Masks -----------------------------------------------------------------------------------------------------------------


def _identity(score: Any, batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    return score


def _combined(name: str, mask_mods: tuple[Any, ...], start: str, join: Callable[[Any, Any], Any]) -> MaskMod:
    if not all(callable(mask_mod) for mask_mod in mask_mods):
        raise RuntimeError(f"expected functions of (b, h, q_idx, kv_idx), got {mask_mods}")

    def combined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = getattr(b, start)((), dtype=mt.bool)
        for mask_mod in mask_mods:
            result = join(result, mask_mod(b, h, q_idx, kv_idx))
        return result

    combined.__name__ = name
    return combined


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask function that keeps a score if any of the given functions keeps it.

    Raise RuntimeError if an argument is not callable.
    """
    return _combined("or_mask", mask_mods, "new_zeros", lambda a, b: a | b)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask function that keeps a score if all of the given functions keep it.

    Raise RuntimeError if an argument is not callable.
    """
    return _combined("and_mask", mask_mods, "new_ones", lambda a, b: a & b)


def _arguments(function: Callable[..., Any]) -> int:
    """Return the number of required arguments: 4 for a mask_mod, 5 for a score_mod. Raise AssertionError for others."""
    found = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if len(found) not in (4, 5):
        raise AssertionError(f"expected a function of 4 (a mask_mod) or 5 arguments (a score_mod), got {len(found)}")
    return len(found)


def _vmap_for_bhqkv(fn: Callable[..., Any], prefix: tuple[int | None, ...], suffix: tuple[int | None, ...] = ()) -> Any:
    """Vectorize a function over batches, heads, queries and keys. The result has these four dimensions."""
    vmap = later("vmap")

    for at in (3, 2, 1, 0):
        dims = tuple(0 if at == other else None for other in range(4))
        fn = vmap(fn, in_dims=(*prefix, *dims, *suffix))
    return fn


def _default_device() -> Any:
    from metatensor import plugins

    if "cuda" in plugins.device_types() and plugins.backend("cuda").is_available():
        return "cuda"
    return "cpu"


def _positions(sizes: tuple[int, ...], device: Any) -> list[Any]:
    return [mt.arange(size, device=device) for size in sizes]


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """Return the dense mask of a mask_mod, or the mask of scores that a score_mod does not set to minus infinity.

    Parameters
    ----------
    mod_fn : callable
        A mask_mod ``(b, h, q_idx, kv_idx)`` or a score_mod ``(score, b, h, q_idx, kv_idx)``.
    B, H : int or None
        Batch size and number of heads. None means 1.
    Q_LEN, KV_LEN : int
        Numbers of queries and keys.
    device : optional
        Device of the mask. Default: CUDA if it is available, else the CPU.

    Returns
    -------
    Tensor
        Bools of shape (B, H, Q_LEN, KV_LEN).

    Examples
    --------
    >>> from metatensor.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 2, 2, device="cpu")
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    device = _default_device() if device is None else device
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if _arguments(mod_fn) == 4:
        return _vmap_for_bhqkv(mod_fn, ())(*_positions(sizes, device))
    scores = _vmap_for_bhqkv(mod_fn, (0,))(mt.zeros(sizes, device=device), *_positions(sizes, device))
    return mt.where(mt.isneginf(scores), False, True)


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Return the block-sparse form of a mask, which `flex_attention` takes as ``block_mask``.

    Parameters
    ----------
    mask_mod : callable
        ``mask_mod(b, h, q_idx, kv_idx)`` returns whether a score is kept.
    B, H : int or None
        Batch size and number of heads. None means 1.
    Q_LEN, KV_LEN : int
        Numbers of queries and keys.
    device : optional
        Device of the mask. Default: CUDA if it is available, else the CPU.
    BLOCK_SIZE : int or pair of int
        Queries and keys per block. Default 128.
    separate_full_blocks : bool
        Whether blocks without any masked score are listed separately from partly masked ones. Default True.
    compute_dq_write_order : bool
        Must be False, because metatensor does not compute the backward pass by blocks.
    dq_kv_order : bool
        Must be a bool. It has no effect.

    Raises
    ------
    AssertionError
        If ``mask_mod`` does not take 4 arguments or does not return bools.
    NotImplementedError
        If ``compute_dq_write_order`` is true.

    Examples
    --------
    >>> from metatensor.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 256, 256, device="cpu")
    >>> mask.to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=metatensor.int32)
    """
    if _arguments(mask_mod) != 4:
        raise AssertionError(f"create_block_mask: expected a mask_mod, a function of (b, h, q_idx, kv_idx), got {mask_mod}")
    if not isinstance(dq_kv_order, bool):
        raise ValueError(f"create_block_mask: dq_kv_order must be a bool, got {type(dq_kv_order).__name__}")
    if compute_dq_write_order:
        raise NotImplementedError("create_block_mask: compute_dq_write_order=True is not supported")
    q_block, kv_block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    if mask.dtype is not mt.bool:
        raise AssertionError(f"create_block_mask: mask_mod must return bools, got {mask.dtype}")
    mask = mt.nn.functional.pad(mask, (0, -KV_LEN % kv_block, 0, -Q_LEN % q_block))
    b, h, q, kv = mask.shape
    sums = mask.view(b, h, q // q_block, q_block, kv // kv_block, kv_block).sum((3, 5))
    whole = q_block * kv_block
    partial = sums > 0
    full: tuple[Any, Any] = (None, None)
    if separate_full_blocks:
        partial = partial & (sums < whole)
        full = ordered(sums == whole)
    counts, columns = ordered(partial)
    return BlockMask.from_kv_blocks(counts, columns, *full, (q_block, kv_block), mask_mod, (Q_LEN, KV_LEN))


def create_nested_block_mask(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: metatensor has no nested tensors."""
    raise NotImplementedError("create_nested_block_mask: metatensor has no nested tensors")


def _create_empty_block_mask(query: Any, key: Any) -> BlockMask:
    """Return a mask of a single block, which keeps everything."""
    block = mt.zeros(1, 1, 1, 1, dtype=mt.int32, device=query.device)
    return BlockMask.from_kv_blocks(block[0] + 1, block, BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE, seq_lengths=(1, 1))


# Attention -------------------------------------------------------------------------------------------------------------


def _check_inputs(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    """Raise ValueError for inconsistent tensors and NotImplementedError for unsupported ones."""
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.device == key.device == value.device:
        raise ValueError(f"flex_attention: inputs must be on the same device, got {query.device}, {key.device}, {value.device}")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(f"flex_attention: expected at least 2 dimensions, got {shapes}")
    if query.size(-1) != key.size(-1):
        raise ValueError(f"flex_attention: query and key must have the same last size, got {shapes}")
    if query.device.type == "cpu" and (query.requires_grad or key.requires_grad or value.requires_grad):
        raise NotImplementedError("flex_attention: gradients are not supported on cpu; the inputs must not require them")
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError(f"flex_attention: expected 4 dimensions, got {shapes}")
    if not enable_gqa and query.size(1) != key.size(1):
        raise ValueError(f"flex_attention: different numbers of heads require enable_gqa=True, got {shapes}")
    if enable_gqa and query.size(1) % key.size(1):
        raise ValueError(f"flex_attention: the number of key heads must divide the number of query heads, got {shapes}")


def _check_block_mask(query: Any, key: Any, block_mask: BlockMask | None) -> None:
    """Raise ValueError for a mask of the wrong size, and RuntimeError for a mask on another device."""
    batches = query.size(0), key.size(0)
    if batches[0] != batches[1] and (block_mask is None or block_mask.kv_num_blocks.size(0) != batches[0]):
        raise ValueError(
            f"flex_attention: query and key have batch sizes {batches[0]} and {batches[1]}, which requires a block_mask of "
            f"batch size {batches[0]}"
        )
    if block_mask is None:
        return
    if block_mask.mask_mod is sliced_mask:
        sliced_mask(None, None, None, None)
    if tuple(block_mask.BLOCK_SIZE) != (_LARGE_SPARSE_BLOCK_SIZE,) * 2:
        lengths = query.size(-2), key.size(-2)
        if lengths != tuple(block_mask.shape[-2:]):
            raise ValueError(
                f"flex_attention: block_mask was made for lengths {tuple(block_mask.shape[-2:])}, not {lengths}; create a new one"
            )
    if query.device != block_mask.kv_num_blocks.device:
        raise RuntimeError(f"flex_attention: query is on {query.device}, but block_mask is on {block_mask.kv_num_blocks.device}")


def _check_options(options: Any, query: Any, request: AuxRequest | None) -> None:
    """Check ``kernel_options`` as PyTorch does, although they have no effect here."""
    options = options or {}
    if "BACKEND" in options and options.get("FORCE_USE_FLEX_ATTENTION", False):
        raise RuntimeError("flex_attention: BACKEND and FORCE_USE_FLEX_ATTENTION cannot be combined")
    if options.get("BACKEND", "AUTO") not in ("AUTO", "TRITON", "FLASH", "TRITON_DECODE"):
        raise ValueError(f"flex_attention: unknown BACKEND {options['BACKEND']!r} in kernel_options")
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in options:
            raise AssertionError(f"flex_attention: kernel_options must not contain {name}; use return_aux instead")
    if request is not None and request.max_scores and query.device.type == "cpu":
        raise NotImplementedError("flex_attention: max_scores are not supported on cpu")


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: _score_mod_signature | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return ``softmax(score_mod(query @ key.mT * scale)) @ value``, with masked scores left out of the softmax.

    Parameters
    ----------
    query : Tensor
        Shape (N, heads, L, E).
    key : Tensor
        Shape (N, heads, S, E).
    value : Tensor
        Shape (N, heads, S, width).
    score_mod : callable, optional
        ``score_mod(score, b, h, q_idx, kv_idx)`` returns the new value of a single score.
    block_mask : BlockMask, optional
        Mask whose ``mask_mod(b, h, q_idx, kv_idx)`` returns whether a single score is kept.
    scale : float, optional
        Factor of the scores. Default ``1 / sqrt(E)``.
    enable_gqa : bool
        Whether key and value may have fewer heads than query. They are repeated to match. Default False.
    return_lse : bool
        Whether to return a pair (output, log-sum-exp). Default False. New code should use ``return_aux``.
    kernel_options : dict, optional
        See `FlexKernelOptions`. Invalid combinations raise an error. Otherwise they have no effect.
    return_aux : AuxRequest, optional
        Auxiliary results to compute. If given, return a pair (output, `AuxOutput`).

    Returns
    -------
    Tensor
        Shape (N, heads, L, width). Queries whose scores are all masked have an output of zeros.

    Raises
    ------
    ValueError
        If shapes or devices do not match, or both ``return_lse`` and ``return_aux`` are given.
    NotImplementedError
        If an input does not have 4 dimensions, or on the CPU if an input requires gradients.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.attention.flex_attention import flex_attention
    >>> q = mt.ones(1, 2, 5, 8)
    >>> flex_attention(q, q, q, lambda score, b, h, q_idx, kv_idx: score - (q_idx - kv_idx).abs()).shape
    metatensor.Size([1, 2, 5, 8])
    """
    _check_inputs(query, key, value, enable_gqa)
    _check_block_mask(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_lse and return_aux cannot be combined")
    _check_options(kernel_options, query, return_aux)
    scores = _scores(query, key, 1 / math.sqrt(query.size(-1)) if scale is None else scale, score_mod, block_mask)
    hidden = (scores == -math.inf).all(-1)
    weights = scores.softmax(-1).masked_fill(hidden.unsqueeze(-1), 0.0)
    groups = query.size(1) // key.size(1)
    out = weights.to(query.dtype) @ _for_each_query(value, query, groups).to(query.dtype)
    result = query.new_empty(out.shape).as_strided(out.shape, _strides_like(out.shape, query.stride())).copy_(out)
    if return_aux is None and not return_lse:
        return result
    lse = max_scores = None
    if return_lse or return_aux is not None and return_aux.lse:
        lse = mt.where(hidden, -math.inf, scores.logsumexp(-1)) / math.log(2) * math.log(2)
    if return_aux is not None and return_aux.max_scores:
        max_scores = scores.amax(-1) / math.log(2) * math.log(2)
    return (result, lse) if return_aux is None else (result, AuxOutput(lse, max_scores))


def _for_each_query(x: Any, query: Any, groups: int) -> Any:
    """Repeat the heads of keys or values ``groups`` times, and expand a batch of one to the batch size of ``query``."""
    x = x.repeat_interleave(groups, 1) if groups != 1 else x
    return x.expand(query.size(0), *x.shape[1:])


def _scores(query: Any, key: Any, scale: float, score_mod: Any, block_mask: BlockMask | None) -> Any:
    """Return all scores after score_mod and mask, in float32 or float64."""
    if key.size(0) not in (1, query.size(0)):
        raise RuntimeError(f"flex_attention: the batch size {key.size(0)} of key does not broadcast to the batch size {query.size(0)} "
                           "of query")
    precise = mt.float64 if query.dtype is mt.float64 else mt.float32
    keys = _for_each_query(key, query, query.size(1) // key.size(1))
    scores = (query.to(precise) @ keys.to(precise).mT * scale).to(precise)
    positions = _positions(tuple(scores.shape), scores.device)
    changed = scores
    if score_mod is not None:
        changed = _vmap_for_bhqkv(score_mod, (0,))(scores, *positions)
    if block_mask is None or block_mask.mask_mod is noop_mask:
        return changed
    mask = _vmap_for_bhqkv(block_mask.mask_mod, ())(*positions)
    return mt.where(mask, changed, mt.tensor(-math.inf, dtype=precise, device=scores.device))


def _strides_like(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Return dense strides that order the dimensions as ``strides`` does, except that the last dimension is innermost."""
    order = sorted(range(len(shape)), key=lambda dim: strides[dim])

    def filled(order: list[int]) -> list[int]:
        found, step = [0] * len(shape), 1
        for dim in order:
            found[dim] = step
            step *= shape[dim]
        return found

    found = filled(order)
    last = len(shape) - 1
    return found if found[-1] == 1 else filled([last] + [dim for dim in order if dim != last])

"""Kernels of padding, and of moving elements between channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.devices.array_kit.registry import kernel


def _constant(kit: Any, out: Any, input: Any, pad: Sequence[int], value: Any) -> None:
    """Pad with ``value``. Negative padding crops. If it removes the whole input, the result is filled with ``value``."""
    target, source = [slice(None)] * input.ndim, [slice(None)] * input.ndim
    for i in range(len(pad) // 2):
        d, (before, after) = input.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        size = input.shape[d]
        source[d] = slice(max(0, -before), size - max(0, -after))
        target[d] = slice(max(0, before), out.shape[d] - max(0, after))
    out[...] = kit.xp.asarray(value).astype(out.dtype)
    out[tuple(target)] = input[tuple(source)]


def _mirrored(xp: Any, place: Any, size: int) -> Any:
    place = xp.abs(place)
    return xp.where(place >= size, 2 * (size - 1) - place, place)


_BORDERS = {
    "reflect": _mirrored,
    "replicate": lambda xp, place, size: xp.clip(place, 0, size - 1),
    "circular": lambda xp, place, size: place % size,
}


@kernel("nn.functional.pad")
def pad(kit: Any, out: Any, input: Any, pad: Sequence[int], mode: str, value: float | None) -> Any:
    if mode == "constant":
        _constant(kit, out, input, pad, 0 if value is None else value)
        return None
    values = input
    for i in range(len(pad) // 2):
        d, (before, after) = input.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        if mode == "circular":
            # Crop first, because elements that negative padding removes do not wrap around.
            values = values[(slice(None),) * d + (slice(max(0, -before), values.shape[d] - max(0, -after)),)]
            before = max(0, before)
        place = kit.xp.arange(out.shape[d]) - before
        if place.size:
            place = _BORDERS[mode](kit.xp, place, values.shape[d])
        values = values.take(place, axis=d)
    return values


@kernel("constant_pad_nd")
def constant_pad_nd(kit: Any, out: Any, input: Any, pad: Sequence[int], value: Any) -> None:
    _constant(kit, out, input, pad, value)


@kernel("nn.functional.pixel_shuffle", half="native")
def pixel_shuffle(kit: Any, out: Any, input: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    *lead, channels, height, width = input.shape
    n = len(lead)
    blocks = input.reshape(*lead, channels // r**2, r, r, height, width)
    return blocks.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(out.shape)


@kernel("nn.functional.pixel_unshuffle", half="native")
def pixel_unshuffle(kit: Any, out: Any, input: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    *lead, channels, height, width = input.shape
    n = len(lead)
    blocks = input.reshape(*lead, channels, height // r, r, width // r, r)
    return blocks.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(out.shape)


@kernel("nn.functional.channel_shuffle", half="native")
def channel_shuffle(kit: Any, out: Any, input: Any, groups: int) -> Any:
    batch, channels, *space = input.shape
    return input.reshape(batch, groups, channels // groups, *space).swapaxes(1, 2).reshape(out.shape)

"""Kernels of dropout, which drop single elements or whole channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

# The value of SELU at minus infinity: -alpha * scale.
_SATURATION = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def _dropped(kit: Any, ticket: Any, p: float, shape: tuple[int, ...], ndim: int) -> Any:
    """Return a mask that is True with probability p, of ``shape`` with 1s appended up to ``ndim`` dimensions.

    While gradients are recorded, dropout multiplies by a mask from ``bernoulli_(1 - p)``. This function draws the same
    mask.
    """
    draw = ~kit.random(ticket).below(math.prod(shape), 0, 1 - p)
    return draw.reshape((*shape, *[1] * (ndim - len(shape))))


def _scaled(kit: Any, out: Any, input: Any, p: float, dropped: Any) -> None:
    if p == 1:
        kit.xp.multiply(input, input.dtype.type(0), out=out)
        return
    kind = input.dtype.type
    kit.xp.multiply(input, kind(1) / kind(1 - p), out=out)
    kit.xp.copyto(out, out.dtype.type(0), where=dropped)


def _alpha(kit: Any, out: Any, input: Any, p: float, dropped: Any) -> None:
    """Apply alpha dropout: set dropped elements to SELU's negative limit, then restore mean and variance."""
    if p == 1:
        kit.xp.multiply(input, input.dtype.type(0), out=out)
        return
    kind = input.dtype.type
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION**2))
    shift = -scale * _SATURATION
    kit.xp.multiply(input, kit.xp.where(dropped, kind(0), kind(scale)), out=out)
    kit.xp.add(out, kit.xp.where(dropped, kind(-shift), kind(0)) + kind(shift * p), out=out)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


def _features(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2]


def _features1d(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2] if len(shape) == 3 else shape[:1]


def _features3d(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2] if len(shape) == 5 else shape[:1]


def _dropout(apply: Any, drawn: Any) -> Any:
    def run(kit: Any, out: Any, input: Any, p: float, training: bool, *rest: Any) -> Any:
        if not training or p == 0 or not input.size:
            return input
        apply(kit, out, input, p, None if p == 1 else _dropped(kit, rest[-1], p, drawn(input.shape), input.ndim))
        return None

    return run


kernel("dropout", "nn.functional.dropout")(_dropout(_scaled, _plain))
kernel("feature_dropout", "nn.functional.dropout2d")(_dropout(_scaled, _features))
kernel("nn.functional.dropout1d")(_dropout(_scaled, _features1d))
kernel("nn.functional.dropout3d")(_dropout(_scaled, _features3d))
kernel("alpha_dropout", "nn.functional.alpha_dropout")(_dropout(_alpha, _plain))
kernel("feature_alpha_dropout", "nn.functional.feature_alpha_dropout")(_dropout(_alpha, _features))


@kernel("native_dropout")
def native_dropout(kit: Any, out: Any, input: Any, p: float, train: bool | None, ticket: Any) -> Any:
    if train is False:
        return input, kit.xp.ones(input.shape, np.bool_)
    dropped = _dropped(kit, ticket, p, input.shape, input.ndim)
    _scaled(kit, out[0], input, p, dropped)
    return out[0], ~dropped

"""Kernels of dropout. Which elements stay is drawn by element, or by channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

# SELU's negative saturation: minus its alpha times its scale.
_SATURATION = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def _kept(kit: Any, ticket: Any, p: float, shape: tuple[int, ...], ndim: int) -> Any:
    """True with probability 1 - p for each element of ``shape``, with dimensions of size 1 up to ``ndim``."""
    draw = kit.random(ticket).uniform(math.prod(shape), dtype="float32") >= p
    return draw.reshape((*shape, *[1] * (ndim - len(shape))))


def _scaled(kit: Any, input: Any, p: float, kept: Any) -> Any:
    if p == 1:
        return input * input.dtype.type(0)
    return kit.xp.where(kept, input * input.dtype.type(1 / (1 - p)), input.dtype.type(0))


def _alpha(kit: Any, input: Any, p: float, kept: Any) -> Any:
    """Dropped elements saturate, and an affine map brings mean and variance back."""
    if p == 1:
        return input * input.dtype.type(0)
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION**2))
    kind = input.dtype.type
    return kit.xp.where(kept, input, kind(_SATURATION)) * kind(scale) + kind(-scale * _SATURATION * p)


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
        kept = None if p == 1 else _kept(kit, rest[-1], p, drawn(input.shape), input.ndim)
        return apply(kit, input, p, kept)

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
    kept = kit.random(ticket).uniform(input.size, dtype="float32").reshape(input.shape) >= p
    return _scaled(kit, input, p, kept), kept

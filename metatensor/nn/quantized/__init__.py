"""Arithmetic as methods of modules, for models prepared for quantization. Nothing is quantized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.nn.module import Module
from metatensor.nn.modules import Identity

__all__ = ["FXFloatFunctional", "FloatFunctional"]


class FXFloatFunctional(Module):
    """Arithmetic as methods of a module. Results are returned unchanged. See `FloatFunctional`."""

    def forward(self, x: Any) -> Any:
        """Raise RuntimeError: call one of the other methods instead."""
        raise RuntimeError(f"{type(self).__name__} is not callable; use its methods, such as add()")

    def _result(self, value: mt.Tensor) -> mt.Tensor:
        return value

    def add(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """Return ``x + y``."""
        return self._result(mt.add(x, y))

    def add_scalar(self, x: mt.Tensor, y: float) -> mt.Tensor:
        """Return ``x + y`` for a number ``y``, without post-processing."""
        return mt.add(x, y)

    def mul(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """Return ``x * y``."""
        return self._result(mt.mul(x, y))

    def mul_scalar(self, x: mt.Tensor, y: float) -> mt.Tensor:
        """Return ``x * y`` for a number ``y``, without post-processing."""
        return mt.mul(x, y)

    def cat(self, x: Sequence[mt.Tensor], dim: int = 0) -> mt.Tensor:
        """Return the tensors concatenated along ``dim``."""
        return self._result(mt.cat(x, dim))

    def add_relu(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """Return ``relu(x + y)``."""
        return self._result(mt.relu(mt.add(x, y)))

    def matmul(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """Return ``x @ y``."""
        return self._result(mt.matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """Arithmetic as methods of a module, with post-processing of the results.

    Each result is passed through the child ``activation_post_process``, an `Identity` that may be replaced.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.quantized.FloatFunctional().add(mt.ones(2, device="cpu"), mt.ones(2, device="cpu"))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def _result(self, value: mt.Tensor) -> mt.Tensor:
        return self.activation_post_process(value)  # type: ignore[no-any-return]

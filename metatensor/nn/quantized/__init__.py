"""Arithmetic as modules, as code prepared for quantization writes it. It is that of ordinary tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.nn.module import Module
from metatensor.nn.modules import Identity

__all__ = ["FXFloatFunctional", "FloatFunctional"]


class FXFloatFunctional(Module):
    """The operators of `FloatFunctional`, with nothing done to their results."""

    def forward(self, x: Any) -> Any:
        """RuntimeError: call one of the operators instead."""
        raise RuntimeError(f"{type(self).__name__}: not to be called itself; use its operators, such as add()")

    def _result(self, value: mt.Tensor) -> mt.Tensor:
        return value

    def add(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """``x + y``."""
        return self._result(mt.add(x, y))

    def add_scalar(self, x: mt.Tensor, y: float) -> mt.Tensor:
        """``x + y`` for a number ``y``; nothing is observed."""
        return mt.add(x, y)

    def mul(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """``x * y``."""
        return self._result(mt.mul(x, y))

    def mul_scalar(self, x: mt.Tensor, y: float) -> mt.Tensor:
        """``x * y`` for a number ``y``; nothing is observed."""
        return mt.mul(x, y)

    def cat(self, x: Sequence[mt.Tensor], dim: int = 0) -> mt.Tensor:
        """The tensors one after the other along ``dim``."""
        return self._result(mt.cat(x, dim))

    def add_relu(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """``relu(x + y)``."""
        return self._result(mt.relu(mt.add(x, y)))

    def matmul(self, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        """``x @ y``."""
        return self._result(mt.matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """Operators as a module; each result goes through ``activation_post_process``, an Identity that may be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def _result(self, value: mt.Tensor) -> mt.Tensor:
        return self.activation_post_process(value)  # type: ignore[no-any-return]

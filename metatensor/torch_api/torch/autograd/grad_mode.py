"""Switches of gradient recording."""

from __future__ import annotations

from typing import Any

from metatensor import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled:
    """Without effect: there is no backward to run in threads. A function and a context manager."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None

"""Traces made by running: there are none, and nobody is making one."""

from __future__ import annotations

from metatensor._core.absent import function

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """None: nothing is traced."""


make_fx = function("fx.experimental.proxy_tensor.make_fx", "metatensor traces no functions")

"""Tracing by execution, which metatensor does not have: `make_fx` raises."""

from __future__ import annotations

from metatensor._core.absent import function

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """Return None, because no such trace can be running."""


make_fx = function("fx.experimental.proxy_tensor.make_fx", "metatensor traces no functions")

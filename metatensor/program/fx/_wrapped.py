"""Registration of functions that a tracer records as a single call."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["WRAPPED", "wrap"]

WRAPPED: list[tuple[dict[str, Any], str]] = []
"""Pairs of a namespace and a name in it, as registered by `wrap`."""


def wrap(fn_or_name: Any) -> Any:
    """Register a function of the calling module to be recorded as a single call.

    Parameters
    ----------
    fn_or_name : callable or str
        The function, or its name. A builtin such as "len" can be named too.

    Returns
    -------
    callable or str
        `fn_or_name`, so that `wrap` can be used as a decorator.

    Raises
    ------
    NotImplementedError
        If it is called anywhere but in a module's top level.
    RuntimeError
        If the argument is neither callable nor a str.
    """
    if callable(fn_or_name):
        code = getattr(fn_or_name, "__code__", None)
        name = fn_or_name.__name__ if code is None else code.co_name
    elif isinstance(fn_or_name, str):
        name = fn_or_name
    else:
        raise RuntimeError(f"torch.fx.wrap: expected a function or the name of one, got {type(fn_or_name).__name__}")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("torch.fx.wrap: must be called in a module's top level")
    WRAPPED.append((frame.f_globals, name))
    return fn_or_name

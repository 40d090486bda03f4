"""Registration of functions that a tracer records as a single call."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["WRAPPED", "install_wrapped", "recording", "wrap"]

WRAPPED: list[tuple[dict[str, Any], str]] = []
"""Pairs of a namespace and a name in it, as registered by `wrap`."""


def recording(function: Callable[..., Any], target: Any = None) -> Callable[..., Any]:
    """Return a function that calls another one, or records the call as a node if there is a proxy among the arguments.

    Only traced code has proxies, so for all other code it behaves like `function`. The node's target is `target`, or the
    returned function if that is None.
    """

    # Reading an operator's `__doc__` would generate its documentation.
    @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__"))
    def recorded(*args: Any, **kwargs: Any) -> Any:
        proxies = sys.modules.get("metatensor.program.fx.proxy")  # before it is imported there are no proxies
        if proxies is not None:
            found = proxies.first_proxy((args, kwargs))
            if found is not None:
                made = found.tracer.create_proxy("call_function", recorded if target is None else target, args, kwargs)
                made.node.meta["is_wrapped"] = True
                return made
        return function(*args, **kwargs)

    recorded._fx_plain = function  # type: ignore[attr-defined]
    return recorded


def install_wrapped() -> None:
    """Start to record functions that were registered by name before they were defined."""
    for namespace, name in WRAPPED:
        _install(namespace, name)


def _install(namespace: dict[str, Any], name: str) -> None:
    plain = namespace.get(name, getattr(builtins, name, None))
    if plain is None or isinstance(plain, type) or hasattr(plain, "_fx_plain"):
        return  # not defined yet, or a class, which a function cannot stand for
    namespace[name] = recording(plain, None if namespace.get("__name__") == getattr(plain, "__module__", None) else plain)


def wrap(fn_or_name: Any) -> Any:
    """Register a function of the calling module to be recorded as a single call.

    From then on, the name refers to a function that records the call if an argument is a proxy, and otherwise calls the original.

    Parameters
    ----------
    fn_or_name : callable or str
        The function, or its name. A builtin such as "len" can be named too.

    Returns
    -------
    callable or str
        The function that records, so that `wrap` can be used as a decorator. A name is returned as it is.

    Raises
    ------
    NotImplementedError
        If it is called inside a function or class.
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
    if isinstance(fn_or_name, str) or isinstance(fn_or_name, type) or hasattr(fn_or_name, "_fx_plain"):
        _install(frame.f_globals, name)
        return fn_or_name
    if frame.f_globals.get(name) is fn_or_name:
        _install(frame.f_globals, name)
        return frame.f_globals[name]
    return recording(fn_or_name)

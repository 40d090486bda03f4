"""Automatic mixed precision.

Inside `autocast`, operators that are safe in half precision, such as matrix products, run in float16 or bfloat16.
Operators that need more precision, such as losses, run in float32::

    with mt.amp.autocast("cuda", dtype=mt.bfloat16):
        y = model(x)

`metatensor.rules.autocast` lists the operators and how each is cast. An autocast applies to one device type and to the
thread that enters it. Meta tensors follow the innermost autocast, whatever its device type. The device need not be
present.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import metatensor as mt
from metatensor._core.autocast import AutocastMode

__all__ = [
    "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "custom_bwd",
    "custom_fwd", "get_autocast_dtype", "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled",
    "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled",
]  # fmt: skip

_BFLOAT16 = frozenset(("cpu", "hpu", "xla", "maia"))
_FLOAT16 = frozenset(("cuda", "xpu", "mps", "mtia", "ipu", "privateuseone", "meta"))


class _State(threading.local):
    """The autocast state of a thread."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, Any] = {}
        self.kind = "cpu"
        """The device type of the innermost autocast. It selects the table for meta tensors."""
        self.cache_enabled = True
        self.nesting = 0
        self.mode: AutocastMode | None = None
        self.entered = False

    def apply(self) -> None:
        """Update the mode from the enabled device types. Enter it if any is enabled. Leave it if none is."""
        if self.mode is None:
            if not any(self.enabled.values()):
                return
            self.mode = AutocastMode()
        from metatensor.rules.autocast import table

        on = {kind for kind, enabled in self.enabled.items() if enabled}
        self.mode.tables = {
            kind: (self.dtypes.get(kind) or _default(kind), table((self.kind if kind == "meta" else kind) == "cpu")) for kind in on
        }
        if not self.cache_enabled:
            self.mode.cache = None
        elif self.mode.cache is None:
            self.mode.cache = {}
        if on and not self.entered:
            self.mode.enter()
            self.entered = True
        elif not on and self.entered:
            self.mode.leave()
            self.entered = False

    def clear(self) -> None:
        if self.mode is not None and self.mode.cache is not None:
            self.mode.cache = {}


_state = _State()


def _default(kind: str) -> Any:
    return mt.bfloat16 if kind in _BFLOAT16 else mt.float16


def _checked(name: str, device_type: Any) -> str:
    """Return `device_type`. Raise ValueError if it is not a str, RuntimeError if autocast does not support it."""
    if not isinstance(device_type, str):
        raise ValueError(f"{name}: expected device_type to be a str, got {type(device_type).__name__}")
    if not is_autocast_available(device_type):
        raise RuntimeError(f"{name}: autocast does not support device type {device_type!r}")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Return True if `autocast` supports a device type.

    It supports the device types of PyTorch, "meta", and those that an installed plugin provides.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.amp.is_autocast_available("cuda")
    True
    """
    if device_type in _BFLOAT16 or device_type in _FLOAT16:
        return True
    from metatensor import plugins

    return device_type in plugins.device_types()


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return True if autocast is enabled for a device type in this thread.

    Raises
    ------
    ValueError
        If `device_type` is not a str.
    RuntimeError
        If `autocast` does not support it.
    """
    return _state.enabled.get(_checked("is_autocast_enabled", device_type), False)


def _is_any_autocast_enabled() -> bool:
    """Return True if autocast is enabled for any device type in this thread."""
    return any(_state.enabled.values())


def _settings() -> dict[str, Any]:
    """Return the device types for which autocast is enabled in this thread, with their dtypes."""
    return {kind: get_autocast_dtype(kind) for kind, enabled in _state.enabled.items() if enabled}


@contextlib.contextmanager
def _all_disabled() -> Iterator[None]:
    """Disable autocast for all device types inside, in this thread."""
    before = dict(_state.enabled), _state.kind
    _state.enabled = {}
    _state.apply()
    try:
        yield
    finally:
        _state.enabled, _state.kind = before
        _state.apply()


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Enable or disable autocast for a device type, in this thread.

    Meta tensors follow the device type that was set last.
    """
    kind = _checked("set_autocast_enabled", device_type)
    _state.enabled[kind] = bool(enabled)
    if kind != "meta":
        _state.kind = kind
        _state.enabled["meta"] = bool(enabled)
        _state.dtypes["meta"] = get_autocast_dtype(kind)
    _state.apply()


def get_autocast_dtype(device_type: str) -> Any:
    """Return the dtype that autocast uses for a device type if none is given: float16 or bfloat16 by default."""
    kind = _checked("get_autocast_dtype", device_type)
    return _state.dtypes.get(kind) or _default(kind)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype that autocast uses for a device type, in this thread."""
    kind = _checked("set_autocast_dtype", device_type)
    _state.dtypes[kind] = dtype
    if kind == _state.kind:
        _state.dtypes["meta"] = dtype
    _state.apply()


def is_autocast_cache_enabled() -> bool:
    """Return True if casts of parameters are cached until the outermost autocast ends."""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are cached until the outermost autocast ends."""
    _state.cache_enabled = bool(enabled)
    _state.apply()


def clear_autocast_cache() -> None:
    """Clear the cache of casts of this thread."""
    _state.clear()


def autocast_increment_nesting() -> int:
    """Increment the nesting depth of autocasts in this thread and return it."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Decrement the nesting depth of autocasts in this thread and return it."""
    _state.nesting -= 1
    return _state.nesting


def _as_now() -> Callable[[], Any]:
    """Return a function that makes context managers. Inside them autocast is as it was when `_as_now` was called."""
    enabled, dtypes, kind, cached = dict(_state.enabled), dict(_state.dtypes), _state.kind, _state.cache_enabled

    @contextlib.contextmanager
    def again() -> Iterator[None]:
        outer = _state.enabled, _state.dtypes, _state.kind, _state.cache_enabled
        _state.enabled, _state.dtypes, _state.kind, _state.cache_enabled = dict(enabled), dict(dtypes), kind, cached
        autocast_increment_nesting()
        _state.apply()
        try:
            yield
        finally:
            if autocast_decrement_nesting() == 0:
                clear_autocast_cache()
            _state.enabled, _state.dtypes, _state.kind, _state.cache_enabled = outer
            _state.apply()

    return again


class autocast:
    """A context manager or decorator that selects the dtype of each operator.

    Parameters
    ----------
    device_type : str
        The device type that the autocast applies to. Meta tensors follow it too.
    dtype : dtype, optional
        The lower-precision dtype, float16 or bfloat16. Default: `get_autocast_dtype(device_type)`. For any
        other dtype, a warning is issued and autocast is disabled.
    enabled : bool
        If False, autocast is disabled inside, even within an outer autocast. Default: True.
    cache_enabled : bool, optional
        Whether to cache the casts of parameters. Default: `is_autocast_cache_enabled()`.

    Raises
    ------
    ValueError
        If `device_type` is not a str.
    RuntimeError
        If autocast does not support `device_type`.

    Examples
    --------
    >>> import metatensor as mt
    >>> a = mt.empty(2, 3, device="meta")
    >>> with mt.amp.autocast("cuda", dtype=mt.bfloat16):
    ...     (a @ a.T).dtype == mt.bfloat16
    True
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device = _checked("autocast", device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and self.fast_dtype not in (mt.float16, mt.bfloat16):
            warnings.warn(
                f"autocast for {device_type} supports only float16 and bfloat16, not {self.fast_dtype}, and is "
                "disabled", stacklevel=2
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._outer: list[tuple[Any, ...]] = []

    def __enter__(self) -> autocast:
        kinds = (self.device, "meta")
        self._outer.append(
            (
                [(kind, _state.enabled.get(kind, False), _state.dtypes.get(kind)) for kind in kinds],
                _state.kind,
                _state.cache_enabled,
            )
        )
        for kind in kinds:
            _state.enabled[kind] = self._enabled
            _state.dtypes[kind] = self.fast_dtype
        _state.kind = self.device
        _state.cache_enabled = self._cache_enabled
        autocast_increment_nesting()
        _state.apply()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        kinds, _state.kind, _state.cache_enabled = self._outer.pop()
        for name, enabled, dtype in kinds:
            _state.enabled[name] = enabled
            _state.dtypes[name] = dtype
        _state.apply()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(f"autocast: expected a function to decorate, got {type(func).__name__}")

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return func(*args, **kwargs)

        return decorated


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Cast the floating-point tensors in ``value`` that are on ``device_type`` or meta, except those of float64."""
    if isinstance(value, mt.Tensor):
        eligible = value.is_floating_point() and value.device.type in (device_type, "meta") and value.dtype != mt.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        made: Any = type(value)
        return made({_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()})
    if isinstance(value, Sequence):
        items = [_cast(v, device_type, dtype) for v in value]
        kind: Any = type(value)
        return kind(*items) if hasattr(value, "_fields") else kind(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate the ``forward`` of an `autograd.Function` for use with autocast.

    Parameters
    ----------
    fwd : callable, optional
        The method to decorate. Its first argument is the context. If None, a decorator is returned.
    device_type : str
        The device type of the autocast.
    cast_inputs : dtype, optional
        If given and autocast is enabled, floating-point tensors in the arguments are cast to this dtype, except those
        of float64. The method then runs with autocast disabled.
    """
    _checked("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        inside, casts = is_autocast_enabled(device_type), cast_inputs is not None
        args[0]._autocast_of_forward = {"enabled": inside and not casts, "dtype": get_autocast_dtype(device_type)}
        if not (inside and casts):
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the ``backward`` of an `autograd.Function` so that it runs in the autocast state of its ``forward``.

    The ``forward`` must be decorated with `custom_fwd`.
    """
    _checked("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, **args[0]._autocast_of_forward):
            return bwd(*args, **kwargs)

    return decorated

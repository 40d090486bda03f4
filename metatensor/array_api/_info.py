"""Inspection of the namespace: devices, dtypes and capabilities."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import DTYPES, of_kind

__all__ = ["__array_namespace_info__"]


class Info:
    """Devices, dtypes and capabilities of the namespace.

    The capabilities hold for every device except meta. On meta, functions whose output shape depends on values raise.
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the values of "boolean indexing", "data-dependent shapes" and "max dimensions" by name."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 72}

    def default_device(self) -> Any:
        """Return the device on which tensors are created if none is given."""
        return mt.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Return the dtypes of tensors created from Python numbers, and of indices, by kind."""
        real = mt.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": mt.int64, "indexing": mt.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Return the standard's dtypes by name. `kind` restricts them to a kind or a tuple of kinds. See `isdtype`.
        """
        if kind is None:
            return dict(DTYPES)
        names = [name for one in (kind if isinstance(kind, tuple) else (kind,)) for name in of_kind(one)]
        return {name: dtype for name, dtype in DTYPES.items() if name in names}

    def devices(self) -> list[Any]:
        """Return all devices that can be used, including meta. This loads the plugins of all devices."""
        found = []
        for type in mt.plugins.device_types():
            try:
                backend = mt.plugins.backend(type)
                count = backend.device_count() if backend.is_available() else 0
            except RuntimeError:  # broken, blocked, or without hardware
                continue
            if type == "meta" or type == "cpu":
                found.append(mt.device(type))  # the devices of such tensors have no index
            else:
                found += [mt.device(type, index) for index in range(count)]
        return found


def __array_namespace_info__() -> Info:
    """Return an object that describes the devices, dtypes and capabilities of the namespace."""
    return Info()

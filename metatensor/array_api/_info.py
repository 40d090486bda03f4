"""What there is: devices, dtypes and capabilities."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import DTYPES, of_kind

__all__ = ["__array_namespace_info__"]


class Info:
    """What the namespace can do; every device can do all of it, but meta has no values, so no shapes that follow from them."""

    def capabilities(self) -> dict[str, Any]:
        """'boolean indexing', 'data-dependent shapes', and 'max dimensions' of a tensor."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 72}

    def default_device(self) -> Any:
        """The device of tensors made without naming one."""
        return mt.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of tensors made of Python numbers, and of indices."""
        real = mt.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": mt.int64, "indexing": mt.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes by name, all or those of one kind or several; see `isdtype` for the kinds."""
        if kind is None:
            return dict(DTYPES)
        names = [name for one in (kind if isinstance(kind, tuple) else (kind,)) for name in of_kind(one)]
        return {name: dtype for name, dtype in DTYPES.items() if name in names}

    def devices(self) -> list[Any]:
        """All devices that can be used now, meta among them. It loads their plugins."""
        found = []
        for type in mt.plugins.device_types():
            try:
                backend = mt.plugins.backend(type)
                count = backend.device_count() if backend.is_available() else 0
            except RuntimeError:  # broken, blocked, or without hardware
                continue
            if type == "meta" or type == "cpu":
                found.append(mt.device(type))  # tensors there name no index
            else:
                found += [mt.device(type, index) for index in range(count)]
        return found


def __array_namespace_info__() -> Info:
    """An object that says what the namespace can do."""
    return Info()

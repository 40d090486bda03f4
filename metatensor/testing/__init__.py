"""Tests for extensions of metatensor (`check_device`, `check_op`) and for models (`check_meta_matches`, ...).

The functions whose names begin with ``check`` need the cpu device (``metatensor-cpu``) as a reference. `assert_shapes` compares
shapes and dtypes.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.testing.deferral import check_deferred_matches as check_deferred_matches
    from metatensor.testing.device import DeviceReport as DeviceReport
    from metatensor.testing.device import check_device as check_device
    from metatensor.testing.matches import check_meta_matches as check_meta_matches
    from metatensor.testing.operator import OpReport as OpReport
    from metatensor.testing.operator import check_op as check_op
    from metatensor.testing.shapes import assert_shapes as assert_shapes

__all__ = ["DeviceReport", "OpReport", "assert_shapes", "check_deferred_matches", "check_device", "check_meta_matches", "check_op"]

_HOME = {
    "check_deferred_matches": "deferral", "check_device": "device", "DeviceReport": "device", "check_meta_matches": "matches",
    "check_op": "operator", "OpReport": "operator", "assert_shapes": "shapes",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

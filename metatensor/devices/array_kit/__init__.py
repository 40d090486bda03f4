"""The array kit: everything a device needs, from a library with mutable, strided arrays (NumPy, CuPy and their like).

`ArrayBackend` is the device, `kernel` registers a kernel for every device of the kit, and `KernelTable` holds a
device's own. Importing this package imports NumPy: only plugins do that.
"""

__all__ = ["ArrayBackend", "KernelTable", "kernel"]

from metatensor.devices.array_kit.registry import KernelTable as KernelTable
from metatensor.devices.array_kit.registry import kernel as kernel


def __getattr__(name: str):
    # The backend needs the compiled core; the kernel files, which import this package, need only the table.
    if name == "ArrayBackend":
        from metatensor.devices.array_kit.backend import ArrayBackend

        return ArrayBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

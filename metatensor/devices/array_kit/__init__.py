"""The array kit: a complete device on top of an array library with mutable, strided arrays (NumPy, CuPy and similar).

`ArrayBackend` is the device. `kernel` registers a kernel for every device of the kit. A `KernelTable` holds the kernels
of one device. `ArrayBackend` and the kernels need NumPy, so metatensor imports them only when they are used.
"""

__all__ = ["ArrayBackend", "KernelTable", "kernel"]

from metatensor.devices.array_kit.registry import KernelTable as KernelTable
from metatensor.devices.array_kit.registry import kernel as kernel


def __getattr__(name: str):
    # ArrayBackend needs the compiled core. The kernel modules import this package but need only the table.
    if name == "ArrayBackend":
        from metatensor.devices.array_kit.backend import ArrayBackend

        return ArrayBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

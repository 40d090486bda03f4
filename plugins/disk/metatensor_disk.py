"""The disk device: tensors whose memory is a file, for what does not fit into RAM.

Each storage is one memory-mapped file without a name, which disappears with the storage (and with the process,
however it ends). METATENSOR_DISK_DIR is the directory to use; the system's temporary one if it is not set.

This file is also the template for a device on the array kit: docs/writing-a-device.md goes through it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import weakref

import numpy as np

from metatensor.devices.array_kit import ArrayBackend
from metatensor.hookspecs import hookimpl

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def map_file(descriptor: int, nbytes: int) -> np.ndarray:
    """The bytes of an open file as an array. Unlike Python's mmap it keeps no descriptor: there may be many tensors."""
    address = LIBC.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = (ctypes.c_uint8 * nbytes).from_address(address)
    weakref.finalize(memory, LIBC.munmap, address, nbytes).atexit = False
    return np.frombuffer(memory, np.uint8)  # keeps `memory`, and so the mapping, which keeps the file


class DiskBackend(ArrayBackend):
    """One device. Everything but where the memory comes from is the kit's, over NumPy."""

    def __init__(self) -> None:
        super().__init__("disk", np, special="scipy.special")

    def directory(self) -> str:
        """Where the files go, read anew each time."""
        return os.environ.get("METATENSOR_DISK_DIR") or tempfile.gettempdir()

    def device_count(self) -> int:
        return int(os.access(self.directory(), os.W_OK | os.X_OK))

    def unavailable_reason(self) -> str:
        return "" if self.device_count() else f"cannot write to {self.directory()}; set METATENSOR_DISK_DIR"

    def allocate(self, nbytes: int, index: int = 0) -> np.ndarray:
        """A flat uint8 array over a new file of ``nbytes`` bytes, all of them reserved on the disk."""
        self.check_index(max(index, 0))
        if nbytes == 0:
            return np.empty(0, np.uint8)  # a mapping cannot be empty
        try:
            with tempfile.TemporaryFile(dir=self.directory()) as file:
                # Reserve now: a disk that fills up later would end the process with a bus error.
                os.posix_fallocate(file.fileno(), 0, nbytes)
                flat = map_file(file.fileno(), nbytes)
        except (OSError, OverflowError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in FULL:
                raise RuntimeError(f"disk: cannot make a file in {self.directory()}: {error}") from error
            raise self.out_of_memory(nbytes, index, f"in {self.directory()}") from error
        self.track(flat)
        return flat


@hookimpl
def metatensor_devices(register):
    """Found through the entry point in pyproject.toml, called when the first tensor on "disk" is made."""
    register(DiskBackend())

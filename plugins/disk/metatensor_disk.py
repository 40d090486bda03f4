"""The disk device: tensors whose memory is a file, for data that does not fit into RAM.

Each storage is one memory-mapped file without a name. The file disappears together with the storage, even if the
process is killed. METATENSOR_DISK_DIR sets the directory. The default is the system's temporary directory.

This file is also the template for a device on the array kit: docs/writing-a-device.md walks through it.
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
    """Map an open file and return its bytes as an array. Unlike Python's mmap, this keeps no file descriptor open."""
    address = LIBC.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = (ctypes.c_uint8 * nbytes).from_address(address)
    weakref.finalize(memory, LIBC.munmap, address, nbytes).atexit = False
    return np.frombuffer(memory, np.uint8)  # keeps `memory` alive, and with it the mapping and the file


class DiskBackend(ArrayBackend):
    """The disk device. Only the source of its memory is special. Everything else is the array kit over NumPy."""

    def __init__(self) -> None:
        super().__init__("disk", np, special="scipy.special")

    def directory(self) -> str:
        """Return the directory for the files. The environment variable is read each time."""
        return os.environ.get("METATENSOR_DISK_DIR") or tempfile.gettempdir()

    def device_count(self) -> int:
        return int(os.access(self.directory(), os.W_OK | os.X_OK))

    def unavailable_reason(self) -> str:
        return "" if self.device_count() else f"cannot write to {self.directory()}; set METATENSOR_DISK_DIR"

    def allocate(self, nbytes: int, index: int = 0) -> np.ndarray:
        """Create a file of ``nbytes`` bytes with reserved disk space. Return it as a flat uint8 array."""
        self.check_index(max(index, 0))
        if nbytes == 0:
            return np.empty(0, np.uint8)  # a file of 0 bytes cannot be mapped
        try:
            with tempfile.TemporaryFile(dir=self.directory()) as file:
                # Reserve the space now. If the disk filled up later, writing would kill the process with a bus error.
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
    """Called through the entry point in pyproject.toml when the first tensor on "disk" is created."""
    register(DiskBackend())

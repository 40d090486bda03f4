"""The disk device: tensors whose memory is a file, for what does not fit into RAM.

Each storage is one memory-mapped file without a name, which disappears with the storage (and with the process,
however it ends). METATENSOR_DISK_DIR is the directory to use; the system's temporary one if it is not set.

This file is also the template for a device on the array kit: docs/writing-a-device.md goes through it.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile

import numpy as np

from metatensor.devices.array_kit import ArrayBackend
from metatensor.hookspecs import hookimpl

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
                memory = mmap.mmap(file.fileno(), nbytes)
        except (OSError, OverflowError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in FULL:
                raise RuntimeError(f"disk: cannot make a file in {self.directory()}: {error}") from error
            raise self.out_of_memory(nbytes, index, f"in {self.directory()}") from error
        flat = np.frombuffer(memory, np.uint8)  # the array keeps the mapping, the mapping the file
        self.track(flat)
        return flat


@hookimpl
def metatensor_devices(register):
    """Found through the entry point in pyproject.toml, called when the first tensor on "disk" is made."""
    register(DiskBackend())

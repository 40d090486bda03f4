"""The backend of the cpu device: the array kit over NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from metatensor.devices.array_kit import ArrayBackend
from metatensor.devices.dlpack import DLDeviceType
from metatensor.devices.threads import limit_blas
from metatensor_cpu.kernels import TABLE

# The small float dtypes that the installed ml_dtypes has. The kit stores the others as bits.
SMALL_FLOATS = {
    name: getattr(ml_dtypes, name)
    for name in (
        "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    )
    if hasattr(ml_dtypes, name)
}


# A block of this many bytes is freed at the start. From then on, the malloc of glibc keeps up to twice as much freed
# memory. Until a program frees such a block, malloc gives the memory of each training step back to the system, and the
# next step waits for its pages to be mapped again.
KEPT_MEMORY = 1 << 22


class CpuBackend(ArrayBackend):
    """The cpu device. `Tensor.numpy` and `from_numpy` share memory with its arrays."""

    dlpack_types = (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost, DLDeviceType.kDLROCMHost)

    def __init__(self) -> None:
        limit_blas()
        np.empty(KEPT_MEMORY, np.uint8)
        super().__init__("cpu", np, dtypes=SMALL_FLOATS, special="scipy.special", table=TABLE)

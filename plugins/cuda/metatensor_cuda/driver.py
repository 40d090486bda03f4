"""Detection of CuPy, the driver and GPUs, and advice if something is missing."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

__all__ = ["driver_version", "import_cupy", "probe"]

# The extra of this distribution for each CUDA version, and the minimum version of CuPy.
EXTRAS = {12: "cuda12", 13: "cuda13"}
LEAST = (13, 3)

# The lowest compute capability that each CUDA version supports.
CAPABILITY = {11: (3, 5), 12: (5, 0), 13: (7, 5)}

# Status codes of the CUDA runtime.
INSUFFICIENT_DRIVER = 35
NO_DEVICE = 100

NO_GPU = "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide them)"


def import_cupy() -> tuple[ModuleType | None, str]:
    """Return (CuPy, ""), or None and the reason why it cannot be imported."""
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return None, f"CuPy is not installed: {install()}"
        return None, f"CuPy is installed, but its dependency {error.name} is missing: {install()}"
    except Exception as error:  # CuPy wraps what its shared libraries raise
        return None, f"CuPy could not be imported: {' '.join(str(error).split())}"
    numbers = tuple(int(part) for part in cupy.__version__.split(".")[:2])
    if numbers < LEAST:
        return None, f"CuPy {cupy.__version__} is too old, {'.'.join(map(str, LEAST))} or later is needed: {install()}"
    return cupy, ""


def install() -> str:
    """Return the command that installs CuPy for the installed driver."""
    extra = EXTRAS.get(min(driver_version() // 1000, max(EXTRAS)))
    if extra:
        return f'pip install "metatensor-cuda[{extra}]"'
    return 'pip install "metatensor-cuda[cuda12]" (or [cuda13], depending on the CUDA version that nvidia-smi shows)'


def driver_version() -> int:
    """Return the CUDA version that the NVIDIA driver supports (12040 for 12.4), or 0 without a driver."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        found = ctypes.c_int(0)
        if library.cuDriverGetVersion(ctypes.byref(found)) == 0:
            return found.value
    return 0


def probe(cupy: Any) -> tuple[int, str]:
    """Return the number of GPUs that CuPy can use and, if that is 0, the reason."""
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
        why = _unsupported(runtime, count) if count else NO_GPU
        return (0, why) if why else (count, "")
    except runtime.CUDARuntimeError as error:
        return 0, _explain(runtime, error)


def _unsupported(runtime: Any, count: int) -> str:
    """Return a message about the first GPU that CuPy does not support, or ""."""
    cuda = runtime.runtimeGetVersion() // 1000
    least = CAPABILITY.get(cuda, (0, 0))
    for index in range(count):
        known = runtime.getDeviceProperties(index)
        have = known["major"], known["minor"]
        if have < least:
            name = known["name"].decode() if isinstance(known["name"], bytes) else known["name"]
            return (
                f"cuda:{index}, {name}, has compute capability {have[0]}.{have[1]}, but CuPy for CUDA {cuda} needs "
                f"{least[0]}.{least[1]}: install CuPy for an older CUDA, or hide the GPU with CUDA_VISIBLE_DEVICES"
            )
    return ""


def _explain(runtime: Any, error: Any) -> str:
    status = getattr(error, "status", None)
    if status == NO_DEVICE:
        return NO_GPU
    if status != INSUFFICIENT_DRIVER:
        return f"CUDA cannot be used: {error}"
    try:
        driver, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    except runtime.CUDARuntimeError:
        return f"CUDA cannot be used: {error}"
    if driver == 0:
        return "no NVIDIA driver was found: install one, or, in a container, start it with access to the GPU"
    return (
        f"the NVIDIA driver supports CUDA {_version(driver)}, but CuPy was built for CUDA {_version(needed)}: "
        f"update the driver, or install CuPy for the older version"
    )


def _version(number: int) -> str:
    """Format a version number: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"

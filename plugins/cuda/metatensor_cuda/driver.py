"""Whether there is anything to compute on, and if not, what would help."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["import_cupy", "probe"]

INSTALL = 'pip install "metatensor-cuda[cuda12]" (or [cuda13], by the CUDA version that nvidia-smi shows)'

# Status codes of the CUDA runtime.
INSUFFICIENT_DRIVER = 35
NO_DEVICE = 100


def import_cupy() -> tuple[ModuleType | None, str]:
    """CuPy, or None and why not."""
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return None, f"CuPy is not installed: {INSTALL}"
        return None, f"CuPy is installed but lacks {error.name}: {INSTALL}"
    except Exception as error:  # CuPy wraps what its shared libraries raise
        return None, f"CuPy could not be imported: {' '.join(str(error).split())}"
    return cupy, ""


def probe(cupy: Any) -> tuple[int, str]:
    """How many GPUs CuPy can use, and where that is none, why."""
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return 0, _explain(runtime, error)
    return count, "" if count else "the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES may hide them)"


def _explain(runtime: Any, error: Any) -> str:
    status = getattr(error, "status", None)
    if status == NO_DEVICE:
        return "the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES may hide them)"
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
    """12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"

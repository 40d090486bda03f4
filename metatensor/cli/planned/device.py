"""The device that imitates a GPU in a planned script."""

from __future__ import annotations

from typing import Any

from metatensor._core.memory import MemoryTracker
from metatensor.devices import DeviceBackend

__all__ = ["PlannedDevice"]


class PlannedDevice(DeviceBackend):
    """A device without memory. Tensors that are created on it are on meta.

    Its memory statistics count the bytes of the script's tensors, on meta and cpu. Its clock is that of the host.
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self.tracker = MemoryTracker()

    def check_index(self, index: int) -> None:
        """Raise RuntimeError for any index but 0."""
        if index != 0:
            raise RuntimeError(f"{self.type}: device {index} does not exist; a planned script has {self.type}:0")

    def allocate(self, nbytes: int, index: int) -> Any:
        """Raise RuntimeError. Only threads that C code started reach this, because no mode redirects them to meta."""
        raise RuntimeError(f"{self.type}: threads that Python did not start cannot create tensors on this planned device; use meta there")

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return the current and the peak bytes of the script's tensors."""
        return {"allocated_bytes.all.current": self.tracker.current, "allocated_bytes.all.peak": self.tracker.peak}

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        """Reset the peak to the current memory use."""
        self.tracker.reset_peak()

    def properties(self, index: int | None = None) -> dict[str, Any]:
        """Return a name. The memory size and the versions are 0."""
        self.check_index(index or 0)
        return {"name": f"planned {self.type} device", "total_memory": 0, "major": 0, "minor": 0, "multi_processor_count": 0}

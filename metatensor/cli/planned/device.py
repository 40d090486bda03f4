"""The device that stands for a GPU while a script is planned."""

from __future__ import annotations

from typing import Any

from metatensor._core.modes import MemoryTracker
from metatensor.devices import DeviceBackend

__all__ = ["PlannedDevice"]


class PlannedDevice(DeviceBackend):
    """One device of a type, without memory: tensors that name it are on meta.

    Its memory figures are the bytes that the tensors of the planned script take, on meta or cpu. Its clock is the host's.
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self.tracker = MemoryTracker()
        self.peak = 0

    def sample(self) -> None:
        """Raise the peak to what tensors take now; called after every operator."""
        if self.tracker.current > self.peak:
            self.peak = self.tracker.current

    def check_index(self, index: int) -> None:
        """Raise RuntimeError for any index but 0."""
        if index != 0:
            raise RuntimeError(f"{self.type}: device {index} does not exist; a planned script has {self.type}:0")

    def allocate(self, nbytes: int, index: int) -> Any:
        """Raise RuntimeError: tensors are made on meta. Only threads that the script starts come here."""
        raise RuntimeError(f"{self.type}: this device is planned, and threads of the script cannot make tensors on it; name meta there")

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """The bytes of the script's tensors, now and at their peak."""
        self.sample()
        return {"allocated_bytes.all.current": self.tracker.current, "allocated_bytes.all.peak": self.peak}

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        """Let the peak start again from what tensors take now."""
        self.peak = self.tracker.current

    def properties(self, index: int | None = None) -> dict[str, Any]:
        """The device has a name; it has no memory and no version."""
        self.check_index(index or 0)
        return {"name": f"planned {self.type} device", "total_memory": 0, "major": 0, "minor": 0, "multi_processor_count": 0}

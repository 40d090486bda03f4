"""Signal processing: `windows`."""

from metatensor.signal import windows

__all__ = ["windows"]

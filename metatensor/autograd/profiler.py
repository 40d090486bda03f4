"""The legacy location of the profiler."""

from metatensor._core.absent import function
from metatensor.profiler import profile, record_function
from metatensor.profiler._events import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile", "record_function"]


class emit_nvtx:
    """A context manager that raises NotImplementedError on entry, unless it is disabled.

    Parameters
    ----------
    enabled : bool
        False makes the context manager do nothing. Default True.
    record_shapes : bool
        Ignored.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        if self.enabled:
            raise NotImplementedError("torch.autograd.profiler.emit_nvtx: metatensor marks no operators for NVIDIA's profilers")

    def __exit__(self, *_: object) -> None:
        return None


emit_itt = function("autograd.profiler.emit_itt", "metatensor marks no operators for Intel's profilers")

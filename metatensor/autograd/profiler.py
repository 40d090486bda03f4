"""The old place of the profiler."""

from metatensor.torch_api.torch.profiler import profile, record_function

__all__ = ["profile", "record_function"]

"""The module from which libraries import the tracer."""

from metatensor.torch_api.torch.jit import TracerWarning, is_tracing, script_if_tracing, trace, trace_module

__all__ = ["TracerWarning", "is_tracing", "script_if_tracing", "trace", "trace_module"]

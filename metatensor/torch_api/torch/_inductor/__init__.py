"""PyTorch's compiler backend, which metatensor does not have."""

from __future__ import annotations

from typing import Any

from metatensor._core.absent import functions
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.compiler import cudagraph_mark_step_begin

__all__ = ["compile", "config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]

_lazy, __dir__ = attributes(__name__, ("config", "cpp_builder"))

_made = functions("_inductor", "aoti_compile_and_package aoti_load_package compile", "nothing is compiled in metatensor")
aoti_compile_and_package, aoti_load_package = _made["aoti_compile_and_package"], _made["aoti_load_package"]
compile = _made["compile"]


def __getattr__(name: str) -> Any:
    return _lazy(name)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return an empty dict."""
    return {}


def list_options() -> list[str]:
    """Return an empty list."""
    return []

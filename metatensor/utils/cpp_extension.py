"""Compilation of PyTorch's C++ extensions, which needs PyTorch. Every function except `is_ninja_available` raises."""

from __future__ import annotations

from typing import Any

__all__ = ["CUDA_HOME", "ROCM_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "is_ninja_available", "load",
           "load_inline", "verify_ninja_availability"]  # fmt: skip

CUDA_HOME = None
ROCM_HOME = None
IS_HIP_EXTENSION = False


def _refuse(name: str) -> Any:
    raise RuntimeError(
        f"torch.utils.cpp_extension.{name}: a compiled extension of PyTorch needs PyTorch; with metatensor, define the operator "
        "with metatensor.library (or torch.library) instead"
    )


def load(name: str, sources: Any, *_: Any, **__: Any) -> Any:
    """Raise RuntimeError: extensions cannot be compiled without PyTorch."""
    _refuse("load")


def load_inline(name: str, cpp_sources: Any, *_: Any, **__: Any) -> Any:
    """Raise RuntimeError: extensions cannot be compiled without PyTorch."""
    _refuse("load_inline")


def CppExtension(name: str, sources: Any, *_: Any, **__: Any) -> Any:
    """Raise RuntimeError: extensions cannot be compiled without PyTorch."""
    _refuse("CppExtension")


def CUDAExtension(name: str, sources: Any, *_: Any, **__: Any) -> Any:
    """Raise RuntimeError: extensions cannot be compiled without PyTorch."""
    _refuse("CUDAExtension")


def include_paths(*_: Any, **__: Any) -> list[str]:
    """Raise RuntimeError: there are no headers of PyTorch."""
    return list(_refuse("include_paths"))


def is_ninja_available() -> bool:
    """Return False, because there is nothing to build."""
    return False


def verify_ninja_availability() -> None:
    """Raise RuntimeError."""
    _refuse("verify_ninja_availability")


class BuildExtension:
    """A build command that raises RuntimeError when it is created."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **_: Any) -> Any:
        """Raise RuntimeError."""
        _refuse("BuildExtension")

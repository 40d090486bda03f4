"""Compiling extensions against PyTorch, which there is none of: each function says so when it is called."""

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
    """RuntimeError: an extension cannot be compiled without PyTorch."""
    _refuse("load")


def load_inline(name: str, cpp_sources: Any, *_: Any, **__: Any) -> Any:
    """RuntimeError: an extension cannot be compiled without PyTorch."""
    _refuse("load_inline")


def CppExtension(name: str, sources: Any, *_: Any, **__: Any) -> Any:
    """RuntimeError: an extension cannot be compiled without PyTorch."""
    _refuse("CppExtension")


def CUDAExtension(name: str, sources: Any, *_: Any, **__: Any) -> Any:
    """RuntimeError: an extension cannot be compiled without PyTorch."""
    _refuse("CUDAExtension")


def include_paths(*_: Any, **__: Any) -> list[str]:
    """RuntimeError: there are no headers of PyTorch."""
    return list(_refuse("include_paths"))


def is_ninja_available() -> bool:
    """False: there is nothing to build with it."""
    return False


def verify_ninja_availability() -> None:
    """RuntimeError."""
    _refuse("verify_ninja_availability")


class BuildExtension:
    """RuntimeError when it is used."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **_: Any) -> Any:
        """RuntimeError."""
        _refuse("BuildExtension")

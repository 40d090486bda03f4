"""The C++ compiler that PyTorch would use."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["get_cpp_compiler"]


def get_cpp_compiler() -> NoReturn:
    """Raise RuntimeError: nothing is compiled."""
    raise RuntimeError("torch._inductor.cpp_builder.get_cpp_compiler: nothing is compiled in metatensor")

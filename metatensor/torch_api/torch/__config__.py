"""What the library was built with, as texts."""

from __future__ import annotations

import platform
import sys

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions of metatensor, Python and the array libraries that are loaded."""
    import metatensor as mt

    lines = [f"metatensor {mt.__version__}, {platform.python_implementation()} {platform.python_version()}"]
    for name in ("numpy", "scipy", "cupy"):
        if name in sys.modules:
            lines.append(f"{name} {sys.modules[name].__version__}")
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """Return the numbers of threads."""
    import os

    from metatensor.torch_api.torch._settings import get_num_interop_threads, get_num_threads

    numbers = {"threads": get_num_threads(), "interop threads": get_num_interop_threads(), "processors": os.cpu_count()}
    return "".join(f"{name}: {number}\n" for name, number in numbers.items())


def _cxx_flags() -> str:
    """Return no flags: there is no C++."""
    return ""

"""A description of the environment for bug reports: ``python -m torch.utils.collect_env``."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any, NamedTuple

import metatensor as mt

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_PACKAGES = ("numpy", "cupy", "pluggy", "timm", "torchvision", "transformers", "lightning", "accelerate", "torchmetrics")


class SystemEnv(NamedTuple):
    """Properties of the environment."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    is_cuda_available: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    cpu_info: str
    pip_packages: list[str]


def get_env_info() -> SystemEnv:
    """Return the versions of metatensor, Python, the operating system and related packages."""
    from metatensor import plugins
    torch_version = getattr(sys.modules.get("torch"), "__version__", "none")

    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return SystemEnv(
        f"{torch_version} (metatensor {mt.__version__})", "False", "None", str("cuda" in plugins.device_types()), platform.platform(),
        "-".join(platform.libc_ver()), sys.version.replace("\n", " "), platform.platform(), platform.processor() or platform.machine(),
        found,
    )  # fmt: skip


def get_pretty_env_info() -> str:
    """Return the description of the environment as text."""
    info = get_env_info()._asdict()
    packages = info.pop("pip_packages")
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in info.items()]
    return "\n".join([*lines, "", "Versions of relevant libraries:", *(f"[pip3] {package}" for package in packages)])


def main(*_: Any) -> None:
    """Print the description of the environment."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()

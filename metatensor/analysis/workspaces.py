"""Workspaces that libraries keep on a GPU for the whole run, by the sizes that they document.

A program's own tensors do not include them, but a framework's count of allocated memory does, because they come from its allocator.

* PyTorch keeps a workspace of cuBLAS for each handle and stream that computes a product. Handles belong to threads: the backward pass of
  autograd runs in a thread of its own, so a training step has two. The size is that of ``CUBLAS_WORKSPACE_CONFIG``, by default
  ``:4096:2:16:8``, and 32 MiB on Hopper (PyTorch, "CUDA semantics", cuBLAS workspaces).
* Transformer Engine keeps one workspace for its own products: 32 MiB from Hopper on, else 4 MiB, and four more of this size for grouped
  products (its function ``get_cublas_workspace_size_bytes``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from metatensor.devices.profiles import DeviceProfile, device_profile

__all__ = ["Workspaces", "workspaces"]

MIB = 1 << 20
DEFAULT = ":4096:2:16:8"
"""The default of ``CUBLAS_WORKSPACE_CONFIG``: pairs of KiB and a number."""
STREAMS = 4
"""Streams of Transformer Engine's grouped products."""
_SETTING = re.compile(r"(:\d+:\d+)+")


class Workspaces(NamedTuple):
    """Bytes of the workspaces of libraries."""

    cublas: int
    """Of PyTorch's handles of cuBLAS."""
    engine: int = 0
    """Of Transformer Engine."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.cublas + self.engine


def workspaces(
    device: str | DeviceProfile, *, setting: str | None = None, threads: int = 2, transformer_engine: bool = False, grouped: bool = False
) -> Workspaces:  # fmt: skip
    """Return the bytes of workspaces that a training step keeps on a device.

    Parameters
    ----------
    device : str or DeviceProfile
        The device. Workspaces are those of NVIDIA's libraries; other devices have none here.
    setting : str, optional
        The value of ``CUBLAS_WORKSPACE_CONFIG``, such as ``":4096:8"``. Default: that of PyTorch.
    threads : int
        Threads that compute products. Default 2: the program's and that of the backward pass.
    transformer_engine : bool
        Whether products are those of Transformer Engine. Default False.
    grouped : bool
        Whether it also computes grouped products, as for experts. Default False.

    Raises
    ------
    ValueError
        If the setting is not pairs of a size and a number.

    Examples
    --------
    >>> from metatensor.analysis import workspaces
    >>> workspaces("h100").total >> 20, workspaces("a100-80gb").total / 2**20, workspaces("h100", transformer_engine=True).total >> 20
    (64, 16.25, 96)
    """
    profile = device_profile(device)
    if profile.vendor != "NVIDIA" or profile.kind != "gpu":
        return Workspaces(0)
    if setting is not None and not _SETTING.fullmatch(setting):
        raise ValueError(f"workspaces: a setting is pairs of KiB and a number such as ':4096:8', got {setting!r}")
    if setting is None and profile.architecture == "Hopper":
        size = 32 * MIB
    else:
        numbers = [int(text) for text in (setting or DEFAULT)[1:].split(":")]
        size = sum(kib * count << 10 for kib, count in zip(numbers[::2], numbers[1::2], strict=True))
    own = 32 * MIB if profile.architecture in _FROM_HOPPER else 4 * MIB
    return Workspaces(threads * size, (own * (1 + STREAMS * grouped)) if transformer_engine or grouped else 0)


_FROM_HOPPER = ("Hopper", "Blackwell")
